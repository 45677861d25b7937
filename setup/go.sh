# Finds a Go, or unpacks Debian's backport for as long as the script runs. Each script sets `root`,
# `again` and `scratch`, and has read `steps.sh`. Either Go fetches by itself the version that a
# module asks for.
# shellcheck shell=sh

backported_go=golang-1.23    # the newest Debian 12 has
toolchain_switch_since=1.21

at_least() { # VERSION WANTED
    [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]
}

# Sets `go` to a Go that fetches another one where it must, if the machine has one.
find_go() {
    for go in "$(command -v go || true)" /usr/local/go/bin/go; do
        [ -x "$go" ] || continue
        have=$(GOTOOLCHAIN=local "$go" env GOVERSION 2>/dev/null | sed 's/^go//')
        if at_least "$have" "$toolchain_switch_since"; then return 0; fi
    done
    return 1
}

debian_mirror() {
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' \
        'Label: Debian' | head -n 1
}

# Unpacks the backport from the mirror that the machine's own sources name, with apt's signature
# check, and leaves apt's lists and the installed packages as they are.
unpack_go() { # WHAT-FOR
    mirror=$(debian_mirror)
    if [ -z "$mirror" ]; then # apt learns a source's code name from its lists
        quietly "read the package lists" as_root apt-get -q update
        mirror=$(debian_mirror)
    fi
    [ -n "$mirror" ] || fail "no apt source of Debian 12 is configured, so there is no Go to build $1" \
        "install Go $toolchain_switch_since or later, then run \`$again\` again"
    say "$1: fetching Go for the build ($backported_go of bookworm-backports, 46 MB)"
    # shellcheck disable=SC2154  # the script sets it
    mkdir -p "$scratch/apt/lists/partial" "$scratch/apt/sources" "$scratch/apt/cache" "$scratch/apt/packages"
    cat >"$scratch/apt/sources/backports.sources" <<END
Types: deb
URIs: $mirror
Suites: bookworm-backports
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
END
    set -- -q -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$scratch/apt/sources" \
        -o Dir::State::Lists="$scratch/apt/lists" -o Dir::Cache="$scratch/apt/cache" \
        -o APT::Sandbox::User=
    quietly "read the lists of bookworm-backports" apt-get "$@" update
    (cd "$scratch/apt/packages" && quietly "fetch Go" apt-get "$@" download "$backported_go-go" "$backported_go-src")
    for package in "$scratch"/apt/packages/*.deb; do
        quietly "unpack Go" dpkg-deb -x "$package" "$scratch/go-root"
    done
    go=$scratch/go-root/usr/lib/go-${backported_go#golang-}/bin/go
}

# Runs Go for a build, with all that it fetches and compiles in the scratch directory.
with_go() { # ARGUMENT…
    CGO_ENABLED=0 GOTOOLCHAIN=auto GOBIN="$scratch/bin" GOPATH="$scratch/go" GOCACHE="$scratch/go-cache" \
        GOFLAGS="$("$go" env GOFLAGS) -modcacherw" "$go" "$@"
}
