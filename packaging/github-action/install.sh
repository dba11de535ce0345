#!/usr/bin/env bash
# Installs a release and checks it against its SHA-256.
# PARALLAX_RELEASE_URL names another place for the releases.
. "$(dirname "$0")/common.sh"

version=${VERSION:-latest}
version=${version#v}
case $version in
    preview | nightly)
        warn "There are no \`$version\` releases; installing the latest."
        version=latest
        ;;
esac
[[ $version =~ ^(latest|[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?)$ ]] ||
    fail "Invalid version \`$version\`. Use \`latest\` or a version number such as 1.2.3."

case $(uname -s)-$(uname -m) in
    Linux-x86_64) target=x86_64-unknown-linux-musl ;;
    Linux-aarch64 | Linux-arm64) target=aarch64-unknown-linux-musl ;;
    Darwin-x86_64) target=x86_64-apple-darwin ;;
    Darwin-arm64) target=aarch64-apple-darwin ;;
    *) fail "No release for $(uname -s) $(uname -m). Use a Linux or macOS runner." ;;
esac

base=${PARALLAX_RELEASE_URL:-${GITHUB_SERVER_URL:-https://github.com}/${ACTION_REPOSITORY:-${GITHUB_REPOSITORY:-}}/releases}
if [[ $version == latest ]]; then from=$base/latest/download; else from=$base/download/v$version; fi

download() {
    curl -fsSL --proto '=https,http,file' --proto-redir '=https' --retry 3 --max-time 300 -o "$2" "$1" ||
        fail "Failed to download $1. Check the version and the connection."
}

sums=$WORK/SHA256SUMS
download "$from/SHA256SUMS" "$sums"
# One line: the checksum, spaces or an asterisk, the name of the archive.
line=$(tr -d '\r' <"$sums" | grep -E "^[0-9a-f]{64} [ *]parallax(-[0-9A-Za-z.+-]+)?-$target\.tar\.gz\$" || true)
[[ -n $line && $line != *$'\n'* ]] || fail "SHA256SUMS of version $version does not name one archive for $target."
expected=${SHA256:-${line:0:64}}
name=${line:66}

archive=$WORK/parallax.tar.gz
download "$from/$name" "$archive"
if command -v sha256sum >/dev/null; then actual=$(sha256sum "$archive"); else actual=$(shasum -a 256 "$archive"); fi
actual=${actual%% *}
if [[ $actual != "$(tr '[:upper:]' '[:lower:]' <<<"$expected")" ]]; then
    rm -f "$archive"
    fail "The checksum of $name is wrong: expected $expected, got $actual. Nothing was installed."
fi

member=$(tar -tzf "$archive" | grep -E '^(\./)?([^/]+/)?parallax$' | head -n 1 || true)
[[ -n $member ]] || fail "$name does not contain the program."
mkdir -p "$WORK/bin"
tar -xzOf "$archive" "$member" >"$WORK/bin/parallax"
chmod 755 "$WORK/bin/parallax"
rm -f "$archive"
installed=$("$WORK/bin/parallax" --version) || fail "The program of $name does not run here."
printf '%s\n' "$WORK/bin" >>"$GITHUB_PATH"
printf 'Installed %s (%s)\n' "$installed" "$target"
