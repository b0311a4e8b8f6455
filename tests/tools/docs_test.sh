#!/usr/bin/env bash
# The documents: the site builds without a warning and needs nothing from elsewhere; tools/check_docs finds nothing, and finds mistakes.
source "$(dirname "${BASH_SOURCE[0]}")/lib.bash"
cd "$root" || exit 1

passes tools/check_docs
passes tools/docs "$scratch/site"
[[ -s $scratch/site/index.html && -s $scratch/site/studies/replicas.html && -s $scratch/site/search/search_index.json ]] || fail "pages are missing"
if grep -rlE '<(link|script|img)[^>]*(src|href)="(https?:)?//' "$scratch/site" --include='*.html' >&2; then fail "pages that load something from elsewhere"; fi

# A small tree with one mistake after the other.
tree() {
  rm -rf "$scratch/docs" "$scratch/mkdocs.yml"
  plant mkdocs.yml $'nav:\n  - Start: page.md'
  plant docs/page.md "$1"
}
tree $'# A page\n\n[here](page.md#a-page), [there](../README.md)'
plant README.md "# Top"
passes tools/check_docs "$scratch"
tree "[nothing](missing.md)"
refuses "docs/page.md:1: no file 'missing.md'" tools/check_docs "$scratch"
tree $'# A page\n\n[nothing](#b-page)'
refuses "docs/page.md:3: no heading '#b-page'" tools/check_docs "$scratch"
tree "# A page"
plant docs/other.md "# Another"
refuses "the navigation lacks docs/other.md" tools/check_docs "$scratch"
tree $'Words:\n- a list'
refuses "docs/page.md:2: no blank line" tools/check_docs "$scratch"
tree "$(printf 'word %.0s' {1..30})"
refuses "columns, at most 110" tools/check_docs "$scratch"
tree $'# A page\n\n<!-- file: a.cc -->\n```cpp\nint b;\n```'
plant a.cc "int a;"
refuses "docs/page.md:3: not what a.cc is" tools/check_docs "$scratch"
passes tools/check_docs --fix "$scratch"
grep -qxF "int a;" "$scratch/docs/page.md" || fail "--fix did not copy the file"
tree $'# A page\n\n<!-- part of: a.cc -->\n```cpp\nint b;\n```'
refuses "docs/page.md:3: not in a.cc" tools/check_docs "$scratch"

# --fix wraps prose, and leaves code and tables alone.
long="    a line of code $(printf 'x%.0s' {1..120})"
tree "$(printf 'Code:\n\n%s\n\n| a table |\n|---|\n| %s |\n\n%sand\n- an item' "$long" "$long" "$(printf 'word %.0s' {1..30})")"
passes tools/check_docs --fix "$scratch"
passes tools/check_docs "$scratch"
grep -qxF -- "$long" "$scratch/docs/page.md" || fail "--fix changed code"
grep -qxF -- "| $long |" "$scratch/docs/page.md" || fail "--fix changed a table"

# What is missing is said, with the command that installs it.
refuses "apt-get install mkdocs mkdocs-material" env PATH=/nowhere TRIREME_MKDOCS=/nowhere/mkdocs /bin/bash tools/docs "$scratch/site"
