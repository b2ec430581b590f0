#!/bin/sh
# Starts the operator where its image does, in the folder with lua_configuration, which it reads by a relative path.
programs=$(realpath "$(dirname "$0")/../../../../bin/others/kruiserollouts")
cd "$programs/modules/rollouts" && exec "$programs/rollouts" "$@"
