#!/bin/sh
# unpack_packages.sh FOLDER WHAT PACKAGE...: fetches packages of Debian, with what they need and this machine has not, and
# unpacks them into FOLDER/unpacked. Nothing is installed. WHAT is what cannot be tested without them.
set -eu
folder=$1
what=$2
shift 2
command -v apt-get > /dev/null && command -v dpkg-deb > /dev/null || {
    echo "NOT TESTED: $what. Its packages are those of Debian, and apt-get is missing" >&2
    exit 1
}
rm -rf "$folder"
mkdir -p "$folder/lists/partial" "$folder/packages/partial" "$folder/unpacked/usr"
fetch() {
    apt-get --quiet=2 -o Dir::State::lists="$folder/lists" -o Dir::Cache::archives="$folder/packages" \
        -o Debug::NoLocking=1 -o APT::Sandbox::User=root "$@"
}
fetch update
fetch install --yes --no-install-recommends --download-only "$@"
for package in "$folder"/packages/*.deb; do dpkg-deb --extract "$package" "$folder/unpacked"; done
if test -d "$folder/unpacked/lib"; then  # a part of /usr, on Debian since version 12
    cp -a "$folder/unpacked/lib/." "$folder/unpacked/usr/lib"
    rm -r "$folder/unpacked/lib"
fi
rm -rf "$folder/lists" "$folder/packages"
