#!/bin/sh
# unpack_slurm.sh FOLDER: fetches Debian's Slurm and unpacks it into FOLDER/unpacked. Nothing is installed.
set -eu
folder=$1
sh "$(dirname "$0")/unpack_packages.sh" "$folder" "jobs under Slurm" slurmd slurmctld slurm-client munge libpmix2
for name in slurmctld slurmd slurmstepd; do  # as its packages do when they are installed
    ln -s "$name-wlm" "$folder/unpacked/usr/sbin/$name"
done
for library in "$folder"/unpacked/usr/lib/*/pmix2/lib/libpmix.so.2; do  # Slurm opens it by the name of its -dev package
    ln -s libpmix.so.2 "${library%.2}"
done
