#!/bin/sh
# unpack_open_mpi.sh FOLDER: fetches Debian's Open MPI 4 and unpacks it into FOLDER/unpacked. Nothing is installed.
set -eu
folder=$1
sh "$(dirname "$0")/unpack_packages.sh" "$folder" "jobs of Open MPI 4 on several hosts" openmpi-bin
ln -s mpirun.openmpi "$folder/unpacked/usr/bin/mpirun"  # as its package does when it is installed
