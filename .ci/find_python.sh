# Read by `.ci/lowest` and `.ci/newest`.

# Print the interpreter of a version, such as 3.10: on the PATH, or among the versions of pyenv, which has shims even of
# those that are not chosen.
find_python() {
  local version
  if "python$1" -c '' 2> /dev/null; then
    echo "python$1"
  elif command -v pyenv > /dev/null && version=$(pyenv versions --bare | grep "^${1//./\\.}\.[0-9]*$" | tail -n 1); then
    echo "$(pyenv prefix "$version")/bin/python"
  else
    echo "no python$1 on the PATH, nor in pyenv: install it and run $0 again" >&2
    return 1
  fi
}
