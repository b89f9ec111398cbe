#!/bin/sh
# unpack_slurm.sh FOLDER: fetches Debian's Slurm, with what it needs and this machine has not, and unpacks it into
# FOLDER/unpacked. Nothing is installed.
set -eu
folder=$1
command -v apt-get > /dev/null && command -v dpkg-deb > /dev/null || {
    echo "NOT TESTED: jobs under Slurm. Its packages are those of Debian, and apt-get is missing" >&2
    exit 1
}
rm -rf "$folder"
mkdir -p "$folder/lists/partial" "$folder/packages/partial" "$folder/unpacked/usr"
fetch() {
    apt-get --quiet=2 -o Dir::State::lists="$folder/lists" -o Dir::Cache::archives="$folder/packages" \
        -o Debug::NoLocking=1 -o APT::Sandbox::User=root "$@"
}
fetch update
fetch install --yes --no-install-recommends --download-only slurmd slurmctld slurm-client munge libpmix2
for package in "$folder"/packages/*.deb; do dpkg-deb --extract "$package" "$folder/unpacked"; done
for name in slurmctld slurmd slurmstepd; do  # as its packages do when they are installed
    ln -s "$name-wlm" "$folder/unpacked/usr/sbin/$name"
done
for library in "$folder"/unpacked/usr/lib/*/pmix2/lib/libpmix.so.2; do  # Slurm opens it by the name of its -dev package
    ln -s libpmix.so.2 "${library%.2}"
done
rm -rf "$folder/lists" "$folder/packages"
