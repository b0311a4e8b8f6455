#!/usr/bin/env bash
# Both commands of the README on a bare Debian 12. Status 77, with the reason, where none can be made.
exec "$(dirname "$0")/../../tools/bare_machine" --suite debian-12
