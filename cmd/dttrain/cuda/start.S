# SPDX-License-Identifier: Apache-2.0
# start.S: the first instructions of dttrain-cuda. The start files of a newer glibc call functions
# that glibc 2.28 lacks, so these take their place.
    .globl _start
    .type _start, @function
_start:
    xorl %ebp, %ebp
    movq %rdx, %r9                  # what the loader wants called at the end
    popq %rsi                       # argc
    movq %rsp, %rdx                 # argv
    andq $-16, %rsp
    pushq %rax                      # keeps the stack aligned
    pushq %rsp
    leaq floor_fini(%rip), %r8
    leaq floor_init(%rip), %rcx
    leaq main(%rip), %rdi
    call *__libc_start_main@GOTPCREL(%rip)
    hlt
    .section .note.GNU-stack,"",@progbits
