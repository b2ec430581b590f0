#!/usr/bin/env bash
# Renames all Go modules of this repository in one commit, so that `go get` finds them where the
# repository is:
#
#   hack/rename-module.sh github.com/OWNER/leasehold
#
# The API group, labels, annotations and finalizers keep their names: those are not import paths.
set -euo pipefail
cd "$(dirname "$0")/.."
new=${1:-}
old=$(awk '$1 == "module" {print $2; exit}' go.mod)
[[ $new =~ ^[a-z0-9.-]+\.[a-z]+(/[A-Za-z0-9._-]+)*$ ]] || { echo "rename-module: usage: hack/rename-module.sh NEW/PATH, such as github.com/OWNER/leasehold" >&2; exit 2; }
[[ $new != "$old" ]] || { echo "rename-module: the module is already named $old" >&2; exit 2; }
[[ -z $(git status --porcelain) ]] || { echo "rename-module: the working tree has changes; commit them first" >&2; exit 2; }
# Otherwise a rename back would change more.
! git grep -qE "(^|[^A-Za-z0-9./-])${new//./\\.}/(api|controllers|runners|test|hack)\b" || { echo "rename-module: $new is already used in the repository" >&2; exit 2; }

# An import path of the module below its root, and the places that name the root itself.
quoted=${old//./\\.}
git grep -IlzF -e "$old" | xargs -0 sed -i -E \
  -e "s#(^|[^A-Za-z0-9./-])$quoted/(api|controllers|runners|test|hack)\b#\1$new/\2#g" \
  -e "s#^module $quoted\$#module $new#" \
  -e "s#^(\t|require |replace )$quoted (v|=>)#\1$new \2#" \
  -e "s#prefix\($quoted\)#prefix($new)#; s#pkg: $quoted,#pkg: $new,#" \
  -e "s#(program\(\"manager\", |PkgPath, )\"$quoted\"#\1\"$new\"#"
git commit -qam "Rename the module $old to $new"
echo "rename-module: $(git show --stat --format= | tail -1)"
