#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The checks of provider aws without AWS: plan refuses impossible settings, and doctor checks the
# requirements of up.
source "${0%/*}/../lib.sh"
unset "${!AWS_@}"
printf '[cluster]\nprovider = "aws"\n[aws]\nregion = "us-east-1"\n' >dtctl.toml

run dtctl plan
is "$status" 0 'plan'
refused() { # REGEX OPTION…
    run dtctl plan "${@:2}"
    like "$status $err" "^2 .*$1" "plan ${*:2}"
}
refused "no region 'us-esat-1' .did you mean us-east-" --region us-esat-1
refused "zone 'us-east-2a' is not in region us-east-1" --zone us-east-2a
refused "'0.0.0.0/0' would let the world try SSH" --operator-cidr 0.0.0.0/0
refused "'capacity-block' needs the id of one" --fallback capacity-block
refused "'g5g.xlarge' is for arm64" --instance-type g5g.xlarge
run dtctl plan --instance-type g6.xlrage
like "$status $err" '^0 .*did you mean g6.xlarge' 'a type that is not known has a near name'

mkdir bin
# shellcheck disable=SC2016 # for the stand-in
printf '#!/bin/sh\necho "{\\"terraform_version\\": \\"${VERSION-1.11.4}\\"}"\n' >bin/terraform
chmod +x bin/terraform
run env PATH="$WORK/bin:$PATH" AWS_ACCESS_KEY_ID=x dtctl doctor
is "$status" 0 'doctor is content with a program, a region and credentials' || diag "$out"
like "$out" "ok +terraform +$WORK/bin/terraform, version 1.11.4" 'doctor names the program'
like "$out" 'ok +credentials +in the environment' 'doctor names the source of the credentials'
like "$out" 'ok +ssh login +by a key that dtctl up makes' 'no key of the user is needed'
run env VERSION=1.5.7 PATH="$WORK/bin:$PATH" AWS_ACCESS_KEY_ID=x dtctl doctor
like "$status $out" "bad +terraform +'$WORK/bin/terraform' is version 1.5.7; .*1.7 or newer" \
    'doctor refuses a version that is too old'
sed -i 's/^region.*/&\nterraform = "nothing-of-that-name"/' dtctl.toml
run dtctl doctor
is "$status" 1 'doctor without the program'
like "$out" "bad +terraform .*there is no program 'nothing-of-that-name'" \
    'doctor names a missing program'
like "$out" 'warn +credentials' 'doctor warns of missing credentials' || diag "$out"
done_testing
