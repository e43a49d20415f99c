#!/usr/bin/env bash
# A second Docker engine for the trials that stop, kill and freeze one: own data, own socket, own network. Started from the tree of an
# installed engine; replaced by the daemon, so that the caller's child is the daemon.
#
# The network has to be its own: a daemon without a bridge removes `docker0` when it starts, whoever that belongs to.
#
# usage: second_engine.sh TREE FOLDER     TREE: a root with /usr/sbin/dockerd; FOLDER: for the socket and the daemon's files
set -euo pipefail
tree=$1 folder=$2
name=$(basename "$folder")
# Nothing of a session's environment: the folders that it names are not in the tree.
exec env -i PATH="$PATH" unshare --mount --net --propagation private bash -c '
  set -e
  tree=$1 folder=$2 name=$3
  mkdir -p "$tree/run/$name" "$tree/var/lib/$name"
  # What a daemon that was killed leaves, and whose numbers others may have by now. By the rest it finds its containers again.
  rm -f "$folder/docker.pid" "$folder/docker.sock" "$tree/run/$name-exec/containerd/containerd.pid"
  mount --bind "$tree" "$tree"
  cd "$tree"
  mkdir -p .host
  mount -t proc proc proc
  mount --rbind /sys sys
  mount --rbind /dev dev
  mount --bind "$folder" "run/$name"
  pivot_root . .host
  umount -l /.host
  exec /usr/sbin/dockerd -H "unix:///run/$name/docker.sock" --pidfile "/run/$name/docker.pid" --exec-root "/run/$name-exec" \
    --data-root "/var/lib/$name" --bridge=none --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false
' second-engine "$tree" "$folder" "$name"
