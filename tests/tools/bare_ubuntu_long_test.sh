#!/usr/bin/env bash
# Both commands of the README on a bare Ubuntu 24.04. Status 77, with the reason, where none can be made.
exec "$(dirname "$0")/../../tools/bare_machine" --suite ubuntu-24.04
