#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The checks of provider aws without AWS: plan refuses impossible settings, and doctor checks the
# requirements of up.
source "${0%/*}/../lib.sh"
unset "${!AWS_@}"
printf '[cluster]\nprovider = "aws"\n[aws]\nregion = "us-east-1"\n' >dtctl.toml

run dtctl plan
is "$status" 0 'plan succeeds'
refused() { # REGEX OPTION…
    run dtctl plan "${@:2}"
    like "$status $err" "^2 .*$1" "plan ${*:2} is refused"
}
refused "no region 'us-esat-1' .did you mean us-east-" --region us-esat-1
refused "zone 'us-east-2a' is not in region us-east-1" --zone us-east-2a
refused "'0.0.0.0/0' would let the world try SSH" --operator-cidr 0.0.0.0/0
refused "'capacity-block' needs the id of one" --fallback capacity-block
refused "'g5g.xlarge' is for arm64" --instance-type g5g.xlarge
# All that the Terraform module refuses is refused before it is asked.
while IFS='|' read -r key value why; do
    printf '[aws]\n%s = %s\n' "$key" "$value" >bad.toml
    run dtctl plan -f bad.toml --provider aws --region us-east-1
    like "$status $err" "^2 .*$why" "plan with $key = $value is refused"
done <<'END'
root_iops|100|100 is below the least that AWS has, 3000
root_throughput|50|50 is below the least that AWS has, 125
vpc_cidr|"10.0.0.0/8"|'10.0.0.0/8' is no range of IPv4 addresses from /16 to /27
operator_cidrs|["198.51.100.300/32"]|'198.51.100.300/32' is neither a range of addresses
ssh_user|"Root"|'Root' is no login
permissions_boundary|"x"|'x' is no policy
instance_profile|"arn:aws:iam::1:instance-profile/x"|is no instance profile
image|"ami-xyz"|'ami-xyz' is neither an image
subnet|"subnet-zz"|'subnet-zz' is no id such as subnet-
placement_group_name|"über"|is no name of a placement group
s3|"s3://Bucket"|'s3://Bucket' is not s3://BUCKET
s3|"s3://b"|'s3://b' is not s3://BUCKET
tags|{ Name = "x" }|'Name' is no tag
tags|{ "dtctl-owner" = "x" }|'dtctl-owner' is no tag
END
run dtctl plan --instance-type g6.xlrage
like "$status $err" '^0 .*did you mean g6.xlarge' 'a type that is not known has a near name'

run dtctl plan --instance-type ml.g6.12xlarge
like "$status $out" '^0 .*g6\.12xlarge' "SageMaker's name of a type is taken"
like "$err" "'ml.g6.12xlarge' is taken as g6.12xlarge, its name on EC2" 'plan says so'
unlike "$out" 'ml\.' 'nothing is made with that name'

mkdir bin
# shellcheck disable=SC2016 # for the stand-in
printf '#!/bin/sh\necho "{\\"terraform_version\\": \\"${VERSION-1.11.4}\\"}"\n' >bin/terraform
chmod +x bin/terraform
run env PATH="$WORK/bin:$PATH" AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=y dtctl doctor
is "$status" 0 'doctor is content with a program, a region and credentials' || diag "$out"
like "$out" "ok +terraform +$WORK/bin/terraform, version 1.11.4" 'doctor names the program'
like "$out" 'ok +credentials +the environment \(AWS_ACCESS_KEY_ID\)' \
    'doctor names the source of the credentials'
like "$out" 'ok +aws +g6.xlarge in us-east-1' 'doctor names the type and the region'
like "$out" 'ok +ssh login +by a key that dtctl up makes' 'no key of the user is needed'
run env VERSION=1.5.7 PATH="$WORK/bin:$PATH" AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=y \
    dtctl doctor
like "$status $out" "bad +terraform +'$WORK/bin/terraform' is version 1.5.7; .*1.7 or newer" \
    'doctor refuses a version that is too old'
run env PATH="$WORK/bin:$PATH" AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=y \
    DTCTL_AWS_INSTANCE_TYPE=g5g.xlarge dtctl doctor
like "$status $out" "^1 .*bad +aws +DTCTL_AWS_INSTANCE_TYPE.*'g5g.xlarge' is for arm64" \
    'doctor names a setting that up would refuse'
sed -i 's/^region.*/&\nterraform = "nothing-of-that-name"/' dtctl.toml
run dtctl doctor
is "$status" 1 'doctor without the program fails'
like "$out" "bad +terraform .*there is no program 'nothing-of-that-name'" \
    'doctor names a missing program'
like "$out" 'bad +credentials +no AWS credentials' 'doctor names missing credentials' || diag "$out"

# Where SSH may come from is asked of AWS where the operator agrees; up then ends at Terraform.
sed -i '/^terraform = /d' dtctl.toml
says() { # STATUS TEXT: what curl does from now on
    # shellcheck disable=SC2016 # for the stand-in
    printf '#!/bin/sh\necho "$@" >>"%s/asked"\necho "%s"\nexit %s\n' "$WORK" "$2" "$1" >bin/curl
    chmod +x bin/curl
}
cat >bin/terraform <<'END'
#!/bin/sh
[ "$1" != version ] || exec echo '{"terraform_version": "1.11.4"}'
case $* in *init*) exit 0 ;; esac
grep -rhos --include='*.tfvars.json' '"operator_cidrs":[^]]*]' . >>"${0%/*}/../ranges"
false
END
says 0 198.51.100.7
run env PATH="$WORK/bin:$PATH" dtctl up -y --operator-cidr auto --operator-cidr 203.0.113.0/24
is "$(sort -u ranges)" '"operator_cidrs":["198.51.100.7/32","203.0.113.0/24"]' \
    'auto is the address that AWS tells'
is "$(wc -l <asked)" 1 'AWS is asked once'
for answer in '0 10.0.0.1' '0 <html>' '22 198.51.100.7'; do
    # shellcheck disable=SC2086 # two words
    says $answer
    run env PATH="$WORK/bin:$PATH" dtctl up -y --operator-cidr auto
    like "$status $err" '^1 .*operator_cidrs.*auto: .* does not say this computer.s address' \
        "an answer '$answer' is refused"
done
run env PATH="$WORK/bin:$PATH" dtctl gc --all-regions
like "$status $(tail -n 1 <<<"$err")" \
    '^1 .* ([0-9]+) of \1 regions could not be cleared: us-east-1, us-east-2, .*sa-east-1$' \
    'gc --all-regions tries every region, also after one that refuses'
refused "'me' is neither a range of addresses" --operator-cidr me
done_testing
