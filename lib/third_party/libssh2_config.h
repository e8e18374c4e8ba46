// SPDX-License-Identifier: Apache-2.0
// libssh2_config.h: what libssh2 asks about the system it is compiled on; true for Linux with musl.
#ifndef DTCTL_LIBSSH2_CONFIG_H
#define DTCTL_LIBSSH2_CONFIG_H

#define HAVE_ARPA_INET_H     1
#define HAVE_EXPLICIT_BZERO  1
#define HAVE_GETTIMEOFDAY    1
#define HAVE_INTTYPES_H      1
#define HAVE_MEMSET_S        0
#define HAVE_NETINET_IN_H    1
#define HAVE_O_NONBLOCK      1
#define HAVE_POLL            1
#define HAVE_SELECT          1
#define HAVE_SNPRINTF        1
#define HAVE_STRTOLL         1
#define HAVE_SYS_IOCTL_H     1
#define HAVE_SYS_PARAM_H     1
#define HAVE_SYS_SELECT_H    1
#define HAVE_SYS_SOCKET_H    1
#define HAVE_SYS_TIME_H      1
#define HAVE_SYS_UIO_H       1
#define HAVE_SYS_UN_H        1
#define HAVE_UNISTD_H        1
#undef HAVE_MEMSET_S

#endif
