#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The user's AWS account: botocore and dtdata find the same keys in random files and environments,
# and sign alike; what doctor says of each source; a code that is asked for; keys that end while
# results are uploaded. tools/aws.py plays STS, SSO and the metadata service.
# ORACLE_SEED, ORACLE_CASES: other cases than those of every day.
source "${0%/*}/../lib.sh"
source "$SRC/tests/s3.sh"
export PYTHONDONTWRITEBYTECODE=1
CLOUD_PYTHON=$("$SRC/tests/cloud/prepare" python) # the user's, not of this test's HOME

oracle() { # find|sign COUNT DESCRIPTION
    mkdir -p oracle
    run env HOME="$WORK/oracle" "$CLOUD_PYTHON" "$SRC/tests/tools/aws_oracle.py" "$1" \
        "${ORACLE_SEED:-1}" "${ORACLE_CASES:-$2}"
    is "$status" 0 "$3" || diag "$out$err"
    diag "$(grep "^$1 seed" <<<"$out")"
}
if [ "${DTCTL_TEST_AWS-}" = off ]; then
    skip 2 'switched off by DTCTL_TEST_AWS=off'
elif [ ! -x "$CLOUD_PYTHON" ]; then
    result 0 'make setup has prepared botocore' || diag "  wanted: $CLOUD_PYTHON"
else
    oracle find 120 'botocore finds the same keys'
    oracle sign 25 'botocore signs alike'
fi

# ---- doctor -------------------------------------------------------------------------------------
aws_start() {
    rm -f aws.port
    python3 "$SRC/tests/tools/aws.py" aws.port 2>aws.err &
    AWS_PID=$!
    wait_for 10 test -s aws.port || bail_out "$(cat aws.err)"
    AWS=http://127.0.0.1:$(cat aws.port)
    export AWS_ENDPOINT_URL_STS=$AWS AWS_ENDPOINT_URL_SSO=$AWS AWS_EC2_METADATA_DISABLED=true
}
# shellcheck disable=SC2317 # called at the end
aws_stop() { kill "$AWS_PID" 2>/dev/null; }
at_end aws_stop
aws_start
mkdir -p project ~/.aws/sso/cache && cd project || exit
printf '[inputs.x]\nsource = "s3://bucket/x"\n' >dtctl.toml
cat >~/.aws/config <<END
[profile keys]
aws_access_key_id = AKKEYS
aws_secret_access_key = SECRET-OF-AKKEYS
[profile role]
role_arn = arn:aws:iam::1:role/r
source_profile = keys
region = eu-west-1
[profile code]
role_arn = arn:aws:iam::1:role/r
source_profile = keys
mfa_serial = arn:aws:iam::1:mfa/me
[profile denied]
role_arn = arn:aws:iam::1:role/denied
source_profile = keys
[profile circle]
role_arn = arn:aws:iam::1:role/r
source_profile = circle
[profile login]
sso_start_url = https://corp.example/start
sso_region = eu-west-1
sso_account_id = 123456789012
sso_role_name = Admin
END
doctor() { # PROFILE EXTENDED_REGEX DESCRIPTION: what doctor says of its credentials
    run env AWS_PROFILE="$1" dtctl doctor
    like "$out" "(ok|bad) +credentials +$2" "$3"
}
doctor keys "AWS profile 'keys', without an end, region us-east-1" 'doctor knows keys of a profile'
doctor role "AWS profile 'role' \(role arn:aws:iam::1:role/r, by AWS profile 'keys'\) until 20" \
    'doctor knows a role, with its end'
like "$out" 'Z, region eu-west-1' 'doctor knows the region'
doctor code "AWS profile 'code': its role asks for a code of 'arn:aws:iam::1:mfa/me', and there" \
    'a code is asked for on a terminal alone'
is "$status" 1 'credentials that are not to be had are a fault'
doctor denied "AWS profile 'denied', AssumeRole of .*: the server answers 403 AccessDenied" \
    'doctor says that a role is refused'
doctor circle '.*circle -> circle' 'doctor says where a circle of profiles is'
doctor login "AWS profile 'login': there is no token of its login" 'doctor misses a token'
like "$out" 'aws sso login --profile login' 'doctor says what helps'
TOKEN=~/.aws/sso/cache/$(printf https://corp.example/start | sha1sum | cut -c1-40).json
printf '{"accessToken":"good-1","expiresAt":"2020-01-01T00:00:00Z"}' >"$TOKEN"
doctor login "AWS profile 'login': the token of its login has expired" 'a token ends'
printf '{"accessToken":"good-1","expiresAt":"2099-01-01T00:00:00Z"}' >"$TOKEN"
doctor login "AWS profile 'login' \(login, role Admin of 123456789012\) until" \
    'doctor knows a login'
printf '[cluster]\nprovider = "aws"\n[aws]\nregion = "eu-west-1"\nprofile = "keys"\n' >aws.toml
run env AWS_ACCESS_KEY_ID=AKENV AWS_SECRET_ACCESS_KEY=s dtctl doctor --config aws.toml
like "$out" "ok +credentials +AWS profile 'keys', without an end" \
    'aws.profile of the file goes before keys of the environment'

# The pseudo-terminal's user answers once; doctor needs one key.
run script -qec 'env AWS_PROFILE=code dtctl doctor' /dev/null <<<123456
like "$out" "Code of arn:aws:iam::1:mfa/me:.*ok +credentials +AWS profile 'code'" \
    'a code is asked for on the terminal'

# ---- keys that end ------------------------------------------------------------------------------
# s3.py knows one key, and the program hands it out with another end each time.
cd "$WORK" || exit
s3_start PAGE=1000
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_ENDPOINT_URL
export AWS_ENDPOINT_URL_S3=$S3
cat >keys.sh <<'END'
#!/bin/sh
if [ -e "$0.once" ] && [ -s "$0.runs" ]; then echo 'no more keys' >&2; exit 5; fi
echo x >>"$0.runs"
ends=$(date -u -d "$(cat "$0.life")" +%Y-%m-%dT%H:%M:%SZ)
printf '{"Version":1,"AccessKeyId":"AKTEST","SecretAccessKey":"SECRETTEST",'
printf '"Expiration":"%s"}' "$ends"
END
chmod +x keys.sh
printf '[profile short]\ncredential_process = "%s"\n' "$WORK/keys.sh" >>~/.aws/config
export AWS_PROFILE=short
mkdir up && for i in 1 2 3; do echo "$i" >"up/$i"; done
echo 'now + 1 hour' >keys.sh.life
run dtdata put up s3://bucket/long
is "$status $(wc -l <keys.sh.runs)" '0 1' 'a key that lives long is found once'
ENDS=$(dtdata list s3://bucket/long | sed -n 's/.*"ends":\([0-9]*\)}/\1/p')
LEFT=$((ENDS / 1000 - $(date +%s)))
ok "addresses end with their key ($LEFT s)" test "$LEFT" -gt 3000 -a "$LEFT" -le 3600
echo 'now + 2 minutes' >keys.sh.life
: >keys.sh.runs
run dtdata put up s3://bucket/short
is "$status" 0 'a key that ends soon is renewed on the way'
is "$(wc -l <keys.sh.runs)" 2 'the renewal is not made for every request'
echo 'now - 1 minute' >keys.sh.life
run dtdata put up s3://bucket/over
like "$status$out" "^[1-9].*the key of AWS profile 'short' \(credential_process\) has expired" \
    'a key that has ended is refused before it is used'
unlike "$out" SECRETTEST 'the error has no secret'
echo 'now + 3 seconds' >keys.sh.life
: >keys.sh.runs
touch keys.sh.once
s3_fault slow ends/2 50
run dtdata put up s3://bucket/ends
like "$status$out" "^[1-9].*key of AWS profile .* has ended and is not renewed: .*no more keys" \
    'a key that ends on the way, and has no successor, is named'
done_testing
