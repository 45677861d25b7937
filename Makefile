# The commands that people and CI type. `make` alone lists them.

SETUP    ?= setup/debian.sh
CARGO     = setup/with-rust.sh cargo
PREFIX   ?= /usr/local
COMMA     = ,
SHARED    = $(DESTDIR)$(PREFIX)/share
AS_ROOT  := $(if $(filter 0,$(shell id -u)),,sudo)
TARGET   := $(or $(CARGO_TARGET_DIR),target)

# Kinds of the stacks that pass the suite.
SUITE    := $(shell sed -n '/^conformance! {/,/^}/s/^ *[a-z0-9_]*: "\([^":]*\).*/\1/p' tests/e2e/suite.rs | sort -u | paste -sd,)
$(if $(findstring native,$(SUITE)),,$(error tests/e2e/suite.rs names no layer))

# Layers that `make test` must run for real: where one of them cannot, its tests fail, not skip.
REQUIRED ?= $(SUITE),libvirt,ssh,runc+runc,qemu+runc,qemu+docker,docker+qemu,qemu+qemu,qemu+xen

DEMO_STACKS  ?= native,runc,gvisor,docker,qemu,qemu+runc
DEMO_RUNS    ?= 3
DEMO_COMMAND ?= sh -c 'tar --sort=name -C /usr/include -cf - linux | gzip | sha256sum'
DEMO_REPORT  := $(TARGET)/demo/report.html

# `make bench ENFORCE=` only says which bars are missed: for a machine that does other things, too.
# Network engines are compared where their peers are named.
BENCHES      ?= agent disturbance fixed_cost starts vm_boot report serve estimators engines \
                $(if $(SURTAX_NETPERF)$(SURTAX_SOCKPERF),network)
ENFORCE      ?= --enforce

# Known flaws of dependencies must be looked for; `where-reachable` accepts a machine that cannot fetch what is known of them, and
# `skip` does not try.
ADVISORIES   ?= required

# How long `make fuzz` gives each target, in seconds, and how many rounds it makes.
FUZZ_SECONDS ?= 60
FUZZ_ROUNDS  ?= 1

# mdBook builds docs/ into a book. It is no part of surtax: `make docs` installs it below the target directory.
MDBOOK_VERSION = 0.5.4
MDBOOK         = $(TARGET)/mdbook/bin/mdbook

.PHONY: help setup appliance build demo test test-all bench protocol mutants fuzz check docs install deb tarball image try-deb try-readers try-arm64 try-pages clean

help: ## Lists these commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-16s%s\n", $$1, $$2 }'

setup: ## Installs what building and the layers need (Debian 12; asks for root rights)
	@$(SETUP)

build: ## Builds target/release/surtax
	$(CARGO) build --release --locked

demo: setup build ## Measures a short command in six stacks and writes an HTML report (a few minutes)
	@mkdir -p $(dir $(DEMO_REPORT))
	$(AS_ROOT) $(TARGET)/release/surtax compare --in $(DEMO_STACKS) --runs $(DEMO_RUNS) \
	    --report $(DEMO_REPORT) -- $(DEMO_COMMAND)
	@echo
	@echo "The report: file://$(abspath $(DEMO_REPORT))"

# Cargo builds as this user; only the test programs themselves run as root.
test: setup appliance ## Runs every test; the layers named in REQUIRED must run for real
	SURTAX_REQUIRE=$(REQUIRED) $(if $(AS_ROOT),CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="sudo -E -H") \
	    CARGO="$(CARGO)" tests/run.sh

test-all: export SURTAX_SLOW_TESTS = 1
test-all: test try-deb tarball image try-readers try-arm64 try-pages ## Runs every test with all of its cases, and those that take minutes, too

# The images of `appliance:arceos` and `appliance:grub-xen` and its PVH twin are built once, and only where their tests must run.
appliance:
	@$(if $(filter appliance,$(subst $(COMMA), ,$(REQUIRED))),setup/arceos.sh && setup/grub-xen.sh)

bench: setup ## Measures surtax itself against the bars of SPECIFICATION.md (ten minutes, as root)
	@missed=; for name in $(BENCHES); do \
	    $(if $(AS_ROOT),CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="sudo -E -H") \
	        $(CARGO) bench --locked --bench $$name -- $(ENFORCE) || missed="$$missed $$name"; \
	done; \
	if [ -n "$$missed" ]; then echo "bars missed in:$$missed"; exit 1; fi

protocol: setup ## Measures the time to an answer, against the fixed protocol of published studies (twenty minutes, as root)
	$(if $(AS_ROOT),CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="sudo -E -H") \
	    $(CARGO) bench --locked --bench fixed_protocol -- --full $(ENFORCE)

# Cargo builds as this user, here too; only the proofs run as root.
mutants: setup ## Breaks the method on purpose, part by part: a quick proof must notice (half an hour, as root)
	MUTANTS_AS_ROOT=$(if $(AS_ROOT),"sudo -E -H") $(CARGO) xtask mutants

fuzz: ## Gives hostile bytes to every reader, a minute each (`FUZZ_SECONDS`, `FUZZ_ROUNDS`)
	$(CARGO) xtask fuzz --seconds $(FUZZ_SECONDS) --rounds $(FUZZ_ROUNDS)

# What is shipped is built alone, too: without the features that other crates of the workspace ask for.
check: ## Checks formatting, lints, the tidy rules, the documentation, and every dependency
	$(CARGO) fmt --all -- --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) clippy --locked -- -D warnings
	$(CARGO) clippy --locked --no-default-features -- -D warnings
	$(CARGO) xtask tidy
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked
	@ADVISORIES=$(ADVISORIES) setup/dependencies.sh

# Tidy looks at links: each leads to a file, and each page is in the book. One that leads out of docs/ is text in the book (`book.toml`).
docs: ## Builds the book of docs/ into target/book; a link that leads nowhere fails
	$(CARGO) xtask tidy
	@$(MDBOOK) --version 2>/dev/null | grep -qx 'mdbook v$(MDBOOK_VERSION)' || { \
	    echo "mdbook: building $(MDBOOK_VERSION) (a few minutes on two cores)"; \
	    $(CARGO) install mdbook --locked --version $(MDBOOK_VERSION) --no-default-features --features search \
	        --force --root $(TARGET)/mdbook; }
	$(MDBOOK) build --dest-dir $(abspath $(TARGET)/book)
	@sed -i 's|<a href="\.\./[^"]*">|<a>|g' $(TARGET)/book/*.html
	@sed -i 's|<a href="\.\./\.\./[^"]*">|<a>|g' $(TARGET)/book/decisions/*.html
	@echo "The book: file://$(abspath $(TARGET)/book/index.html)"

install: build ## Installs surtax, its completions and its manual below PREFIX (default /usr/local)
	$(AS_ROOT) install -D -m 755 $(TARGET)/release/surtax $(DESTDIR)$(PREFIX)/bin/surtax
	$(TARGET)/release/surtax completions bash | \
	    $(AS_ROOT) install -D -m 644 /dev/stdin $(SHARED)/bash-completion/completions/surtax
	$(TARGET)/release/surtax completions zsh | \
	    $(AS_ROOT) install -D -m 644 /dev/stdin $(SHARED)/zsh/site-functions/_surtax
	$(TARGET)/release/surtax completions fish | \
	    $(AS_ROOT) install -D -m 644 /dev/stdin $(SHARED)/fish/vendor_completions.d/surtax.fish
	$(AS_ROOT) $(TARGET)/release/surtax man --directory $(SHARED)/man/man1

deb: build ## Packs it for Debian into target/debian, and has lintian look at it
	packaging/deb.sh

try-deb: deb ## Installs the package on a fresh Debian 12, measures there, and removes it (a few minutes, as root)
	$(AS_ROOT) packaging/try-deb.sh

tarball: ## Packs a surtax without libraries into target/tarball, with checksum and bill of materials, and tries it (five minutes)
	packaging/tarball.sh

image: deb ## Makes a container image of the package and its layers, and has a Docker of its own run it (two minutes, as root)
	$(AS_ROOT) packaging/image.sh

try-readers: build ## Has pandas, Prometheus, Jupyter and others read what surtax exports, and act run the GitHub Action (a minute, as root)
	tests/readers/run.sh

try-arm64: build ## Builds surtax for arm64 and runs its libraries' unit tests there, in QEMU's user mode (six minutes)
	tests/arm64.sh

try-pages: build ## Has Chromium look at ten reports, wide, dark, on a phone and printed (three minutes, as root)
	$(AS_ROOT) tests/pages/run.sh

clean: ## Removes what was built
	$(CARGO) clean
