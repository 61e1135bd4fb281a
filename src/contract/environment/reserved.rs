//! The environment names a trailer may never set, as one table.
//!
//! Anyone who may push a commit chooses its trailers, and commands inherit the environment they become (CONTRACT.md §3).
//! Invariant: a variable by which a value turns into code, or changes what is loaded, executed, trusted or contacted,
//! is listed. The table errs on the side of more: a workflow can always name its trailer differently. It leaves the
//! turning of trailers into variables to `environment`.

/// Names of one family, reserved for one reason.
#[derive(Debug, Clone, Copy)]
pub struct ReservedFamily {
    /// Why the family is out of reach, in a few words.
    pub reason: &'static str,
    /// Words parted by white space: exact names, or `PREFIX*` for all that begin so. Compared without regard to
    /// ASCII case.
    pub names: &'static str,
}

impl ReservedFamily {
    /// The names and prefixes one by one.
    pub fn patterns(&self) -> impl Iterator<Item = &'static str> {
        self.names.split_ascii_whitespace()
    }
}

const fn family(reason: &'static str, names: &'static str) -> ReservedFamily {
    ReservedFamily { reason, names }
}

/// The table. Each family says why it is here.
pub const RESERVED_NAMES: &[ReservedFamily] = &[
    family(
        "names of the contract, set by the runner",
        "BODY BODY_PATH COMMIT_HASH WORKTREE_PATH STDOUT_LOG_PATH STDERR_LOG_PATH LOG_LEVEL ROLE",
    ),
    family("names of the runner and of git, which run hooks, helpers and filters", "AYNIG_* GIT_* GITHUB_*"),
    family(
        "dynamic loaders and C libraries: what is loaded into every program",
        "LD_* DYLD_* _RLD* LIBPATH SHLIB_PATH GLIBC_TUNABLES GCONV_PATH GETCONF_DIR MALLOC_* MUSL_* \
         NIX_* ASAN_* LSAN_* MSAN_* TSAN_* UBSAN_* QEMU_*",
    ),
    family(
        "shells: start files, word splitting, options, prompts that are expanded, exported functions",
        "BASH* ENV IFS SHELL SHELLOPTS POSIXLY_CORRECT PS0 PS1 PS2 PS3 PS4 PROMPT_COMMAND PROMPT_DIRTRIM RPROMPT CDPATH \
         GLOBIGNORE FIGNORE ZDOTDIR FPATH ZSH* NULLCMD READNULLCMD HISTFILE FCEDIT INPUTRC KSH* FISH_* \
         __FISH* NU_* PWSH* PSMODULEPATH COMSPEC PATHEXT EXECIGNORE TMOUT OPTIND OPTARG HOSTFILE \
         MAILPATH",
    ),
    family(
        "places and identity of the system, where programs and their configuration are found",
        "PATH HOME USER LOGNAME USERNAME USERPROFILE APPDATA LOCALAPPDATA PROGRAMDATA SYSTEMROOT WINDIR \
         PWD OLDPWD TMPDIR TMP TEMP TEMPDIR XDG_* DBUS_* SYSTEMD_* NOTIFY_SOCKET LISTEN_* INVOCATION_ID \
         JOURNAL_STREAM DISPLAY WAYLAND_* XAUTHORITY XLOCALEDIR KRB5* PAM_* HOSTNAME MANPATH INFOPATH \
         FILE__* MAGIC",
    ),
    family(
        "language, terminal and time: files that are parsed on sight, texts that scripts compare",
        "LANG LANGUAGE LC_* LOCPATH NLSPATH OUTPUT_CHARSET TEXTDOMAIN* CHARSET* TZ TZDIR TERM TERMCAP \
         TERMINFO* TERMPATH COLUMNS LINES NO_COLOR CLICOLOR* FORCE_COLOR",
    ),
    family("name resolution: which host a name leads to", "HOSTALIASES RES_OPTIONS LOCALDOMAIN RESOLV_*"),
    family(
        "pagers, editors, browsers and openers: values that are run as commands",
        "PAGER LESS LESSOPEN LESSCLOSE LESSKEY* LESSEDIT LESSSECURE* LESSCHARSET LESSCHARDEF LESSHISTFILE LESS_* MORE MOST_* BAT_* DELTA_* MANPAGER MANOPT MANROFFOPT GROFF_* EDITOR VISUAL BROWSER \
         DIFFPROG MERGETOOL* VIM* EXINIT NVIM_* EMACS* ALTERNATE_EDITOR HGEDITOR HGMERGE SVN_* CVS_* \
         RSYNC_* FZF_* RIPGREP_CONFIG_PATH ACK* GREP_* LS_COLORS TAR_OPTIONS GZIP BZIP* XZ_* ZSTD_* \
         UNZIP UNZIPOPT ZIPOPT TAPE RSH PARALLEL* SCREEN* TMUX* MAILER MAILRC MAIL",
    ),
    family(
        "ssh, prompts for passwords, privilege: commands and agents that are trusted",
        "SSH_* SUDO_* DOAS_* PKEXEC_* ASKPASS GPG_* GNUPGHOME PINENTRY_* GCM_* NETRC PASSWORD_STORE_* \
         VAULT_* SOPS_* AGE_*",
    ),
    family(
        "proxies and trust in servers: who reads and answers the traffic",
        "HTTP_PROXY HTTPS_PROXY FTP_PROXY RSYNC_PROXY ALL_PROXY NO_PROXY SOCKS_* TSOCKS_* PROXYCHAINS_* \
         REQUEST_METHOD SSL_* SSLKEYLOGFILE OPENSSL_* CURL_* WGETRC WGET_* REQUESTS_CA_BUNDLE CA_BUNDLE \
         CAINFO NSS_* GNUTLS_* TLS_* P11_KIT_*",
    ),
    family(
        "Python and its packagers",
        "PYTHON* PY_* PYENV* PIP_* PIPX_* PIPENV_* POETRY_* UV_* VIRTUAL_ENV* CONDA* MAMBA_* TOX_* NOX_* \
         PYTEST_* IPYTHON* JUPYTER* DJANGO_SETTINGS_MODULE FLASK_* SETUPTOOLS_* DISTUTILS_* TWINE_*",
    ),
    family("Perl", "PERL* CPAN* PAR_*"),
    family("Ruby", "RUBY* GEM_* BUNDLE_* RBENV_* RAKEOPT RAKE_* IRBRC RAILS_* RACK_*"),
    family(
        "JavaScript runtimes and packagers",
        "NODE_* NPM_* NVM_* NPX_* YARN_* PNPM_* COREPACK_* DENO_* BUN_* ELECTRON_* TS_NODE_* BABEL_* \
         PUPPETEER_* PLAYWRIGHT_* CHROME_*",
    ),
    family(
        "Java and what runs on it",
        "JAVA_* _JAVA_OPTIONS JDK_* JRE_* JVM_* CLASSPATH MAVEN_* MVN_* M2_HOME GRADLE_* ANT_* SBT_* \
         SCALA_* KOTLIN_* GROOVY_* CLOJURE_* LEIN_* JBOSS_* CATALINA_*",
    ),
    family(
        "Rust, Go, .NET, Swift and Zig",
        "CARGO* RUST* GO111MODULE GO386 GOAMD64 GOARCH GOARM* GOAUTH GOBIN GOCACHE* GOCOVERDIR GODEBUG GOENV \
         GOEXE GOEXPERIMENT GOFIPS140 GOFLAGS GOGC GOHOSTARCH GOHOSTOS GOINSECURE GOMAXPROCS GOMEMLIMIT GOMIPS* GOMOD \
         GOMODCACHE GONOPROXY GONOSUMDB GOOS GOPATH GOPPC64 GOPRIVATE GOPROXY GORACE GORISCV64 GOROOT* GOSUMDB GOTELEMETRY* \
         GOTMPDIR GOTOOLCHAIN GOTOOLDIR GOTRACEBACK GOVCS GOVERSION GOWASM GOWORK GO_* CGO_* DELVE_* DOTNET_* CORECLR_* COREHOST_* MONO_* MSBUILD* NUGET_* COMPLUS_* \
         COR_* SWIFT_* ZIG_*",
    ),
    family(
        "other interpreters",
        "LUA* PHP* COMPOSER_* R_* RSCRIPT_* JULIA_* ERL_* ELIXIR_* MIX_* HEX_* GHC* CABAL_* STACK_* \
         OCAML* CAML* OPAM* TCL* TK_* GUILE_* RACKET* PLTADDONDIR PLTCOLLECTS PLTCOMPILEDROOTS PLTUSERHOME PLT_* SBCL_* OCTAVE_* MATLAB_* AWKPATH AWKLIBPATH \
         GAWK_* POSTSCRIPT* GS_* TEXINPUTS* TEXMF* JQ_* M4PATH SQLITE_* PSQLRC PSQL_* PG* MYSQL_* DART_* \
         PUB_* FLUTTER_* NIM_* CRYSTAL_* WASM*",
    ),
    family(
        "compilers, linkers and build tools: flags and programs that are run",
        "MAKE MAKEFLAGS MAKEFILES MAKELEVEL MAKEOVERRIDES MAKESHELL MFLAGS GNUMAKEFLAGS CC CXX CPP LD AR AS NM RANLIB STRIP OBJCOPY OBJDUMP FC F77 CFLAGS \
         CXXFLAGS CPPFLAGS FFLAGS LDFLAGS LDLIBS LIBS ARFLAGS ASFLAGS YACC LEX CPATH C_INCLUDE_PATH \
         CPLUS_INCLUDE_PATH OBJC_INCLUDE_PATH LIBRARY_PATH COMPILER_PATH GCC_* CLANG_* LLVM_* COLLECT_* \
         DEPENDENCIES_OUTPUT SUNPRO_DEPENDENCIES CCACHE_* SCCACHE_* DISTCC_* PKG_CONFIG* CMAKE_* CTEST_* \
         MESON* NINJA* BAZEL* BUCK* AUTOCONF* AUTOMAKE* ACLOCAL* AUTOM4TE* LIBTOOL* CONFIG_SITE \
         CONFIG_SHELL INSTALL SCONSFLAGS CROSS_* XCODE_* DEVELOPER_DIR SDKROOT \
         ANDROID_* LIBCLANG_PATH BINDGEN_* PROTOC* ESLINT_* JUST_* TASK_X_* TASK_TEMP_DIR TASK_REMOTE_* DIRENV_* MISE_* ASDF_* RTX_* \
         PRE_COMMIT_* HUSKY* LEFTHOOK* DEBUGINFOD_* GDB* VALGRIND_* STRACE_*",
    ),
    family("system packagers", "APT_* DPKG_* DEB_* DEBIAN_* RPM_* DNF_* HOMEBREW_* SNAP_* FLATPAK_* GUIX_*"),
    family(
        "containers, clusters and clouds: where commands are carried out and with whose credentials",
        "DOCKER_* BUILDKIT_* BUILDX_* COMPOSE_* CONTAINER_* CONTAINERS_* CONTAINERD_* PODMAN_* BUILDAH_* REGISTRY_* \
         KUBE* HELM_* MINIKUBE_* AWS_* AZURE_* ARM_* GCP_* GCLOUD_* GOOGLE_* CLOUDSDK_* BOTO* GCE_* \
         OCI_* DIGITALOCEAN_* HCLOUD_* TF_* TERRAFORM_* PULUMI_* ANSIBLE_* VAGRANT_* PACKER_* CONSUL_* \
         NOMAD_* GH_* GLAB_* GITLAB_* CI CI_*",
    ),
    family(
        "agents and their services: which server is given the prompt, which tools it may call",
        "ANTHROPIC_* CLAUDE* OPENAI_* CODEX_* GEMINI_* OLLAMA_* MCP_* AIDER_* COPILOT_* CURSOR_* \
         OPENCODE_* HF_* LLM_*",
    ),
];

/// Whether a trailer may not set this variable.
pub fn is_reserved_name(name: &str) -> bool {
    RESERVED_NAMES.iter().flat_map(ReservedFamily::patterns).any(|pattern| matches(pattern, name))
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix)),
        None => name.eq_ignore_ascii_case(pattern),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved() {
        let reserved = "BODY ROLE AYNIG_BIN AYNIG_ GIT_DIR LD_PRELOAD DYLD_INSERT_LIBRARIES BASH_ENV BASH_FUNC_ls \
             ENV IFS PATH HOME PYTHONPATH PERL5OPT RUBYOPT NODE_OPTIONS npm_config_registry \
             NPM_CONFIG_REGISTRY JAVA_TOOL_OPTIONS _JAVA_OPTIONS CLASSPATH GOFLAGS CARGO_HOME \
             RUSTC_WRAPPER PAGER LESSOPEN EDITOR SSH_ASKPASS HTTP_PROXY http_proxy SSL_CERT_FILE \
             MAKEFLAGS CC LC_ALL TZ TMPDIR XDG_CONFIG_HOME DOCKER_HOST KUBECONFIG AWS_PROFILE \
             GLIBC_TUNABLES GCONV_PATH PS4 CONFIG_SITE ANTHROPIC_BASE_URL";
        for name in reserved.split_ascii_whitespace() {
            assert!(is_reserved_name(name), "{name}");
        }
        for name in [
            "DWP_STATE",
            "DWP_PATH",
            "SIGNED_OFF_BY",
            "GOAL",
            "TASK_ID",
            "BODYGUARD",
            "ISSUE",
            "REVIEWED_BY",
            "MY_PATH",
            "",
            "É",
        ] {
            assert!(!is_reserved_name(name), "{name}");
        }
    }

    #[test]
    fn the_table_is_well_formed_and_leaves_the_contracts_trailers_alone() {
        let mut seen = std::collections::BTreeSet::new();
        for family in RESERVED_NAMES {
            assert!(!family.reason.is_empty() && !family.names.is_empty());
            for pattern in family.patterns() {
                let name = pattern.strip_suffix('*').unwrap_or(pattern);
                let legal = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
                assert!(!name.is_empty() && name.bytes().all(legal), "{pattern}");
                assert!(!"DWP_".starts_with(name) && !name.starts_with("DWP_"), "{pattern}");
                assert!(seen.insert(pattern), "{pattern} stands twice");
            }
        }
    }
}
