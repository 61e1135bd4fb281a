//! The environment names a trailer may never set, as one table of patterns (CONTRACT 3.9).
//!
//! Anyone who may push a commit chooses its trailers, and commands inherit the variables made from
//! them. The table refuses variables by which a value may turn into code, or change what is loaded,
//! run, trusted or contacted. It cannot be complete, since any program may read any variable, so it
//! rather reserves too much. A workflow can name its trailer `dwp-…`, which is always free.
//! Operators who need certainty list the admitted names (`aynig.trailerVariables`).

/// Patterns that are reserved for one reason.
#[derive(Debug, Clone, Copy)]
pub struct ReservedFamily {
    /// Why the family is reserved, in a few words.
    pub reason: &'static str,
    /// Patterns separated by white space: `NAME`, `BEGIN*`, `*END`, or `WORD[_*]` for `WORD` and
    /// `WORD_*`. Compared without regard to ASCII case.
    pub(crate) patterns: &'static str,
}

impl ReservedFamily {
    /// The patterns one by one.
    pub fn patterns(&self) -> impl Iterator<Item = &'static str> {
        self.patterns.split_ascii_whitespace()
    }
}

const fn family(reason: &'static str, patterns: &'static str) -> ReservedFamily {
    ReservedFamily { reason, patterns }
}

/// The table of CONTRACT 3.9.
pub const RESERVED_NAMES: &[ReservedFamily] = &[
    family(
        "names of the contract, set by the runner",
        "BODY BODY_PATH COMMIT_HASH WORKTREE_PATH STDOUT_LOG_PATH STDERR_LOG_PATH LOG_LEVEL ROLE",
    ),
    family(
        "names of the runner, of git, which runs hooks, helpers and filters, and of forges",
        "AYNIG_* GIT[_*] GITHUB_* GITLAB_* GH[_*] GLAB[_*] CI[_*]",
    ),
    family(
        "by the end: programs that are run, and their arguments",
        "*_BIN *_BINARY *_EXE *_EXECUTABLE *_PROGRAM *_COMMAND *CMD *SHELL *EDITOR *PAGER *_BROWSER *_INTERPRETER \
         *_COMPILER *_LINKER *_LAUNCHER *_WRAPPER *_PRELOAD *_HOOK *_HOOKS *_PLUGIN *_PLUGINS *_LOADER *_LIB *LIBS \
         *FLAGS *_OPTS *_OPTIONS",
    ),
    family(
        "by the end: where programs and their configuration are found",
        "*PATH *HOME *_ROOT *_CONFIG *_CONFIG_FILE *_CONFIG_DIR *_CONF *_CFG *_SETTINGS *_RC *RCFILE",
    ),
    family(
        "by the end: what is contacted",
        "*PROXY *_ENDPOINT *_ENDPOINTS *_DSN *_HOST *_HOSTS *_SERVER *_SERVERS *_GATEWAY *_REGISTRY *_MIRROR *_SOCKET \
         *_SOCK *_ADDR *_URI *_API *_API_URL *_BASE_URL *_DATABASE_URL *_ENDPOINT_URL *_INDEX_URL *_PROXY_URL \
         *_REDIS_URL *_REGISTRY_URL *_SERVER_URL",
    ),
    family(
        "by the end: what is trusted, and with whose credentials",
        "*_TOKEN *_PASSWORD *_PASSPHRASE *_SECRET *_CREDENTIALS *_API_KEY *_ACCESS_KEY *_PRIVATE_KEY *_SECRET_KEY \
         *_KEYRING *_KEYSTORE *_TRUSTSTORE *ASKPASS *_CERT *_CERT_DIR *_CERT_FILE *_CACERT *_CAFILE *CA_BUNDLE \
         *_INSECURE *_NO_VERIFY *_SKIP_VERIFY *_TLS_VERIFY",
    ),
    family(
        "the system: loaders, shells, places, language, terminal, names of hosts",
        "LD_* DYLD_* _RLD* GLIBC_TUNABLES GETCONF_DIR MALLOC_* MUSL_* NIX_* ASAN_* LSAN_* MSAN_* TSAN_* UBSAN_* \
         QEMU_* BASH* ZSH* KSH* FISH_* __FISH* NU_* PWSH* ENV IFS SHELLOPTS POSIXLY_CORRECT PS* PROMPT_DIRTRIM \
         RPROMPT GLOBIGNORE FIGNORE EXECIGNORE ZDOTDIR HISTFILE FCEDIT INPUTRC COMSPEC PATHEXT TMOUT OPTIND OPTARG \
         USER USERNAME USERPROFILE LOGNAME APPDATA LOCALAPPDATA PROGRAMDATA SYSTEMROOT WINDIR PWD OLDPWD TMP* TEMP \
         TEMPDIR XDG_* DBUS_* SYSTEMD_* LISTEN_* INVOCATION_ID JOURNAL_STREAM DISPLAY WAYLAND_* XAUTHORITY XLOCALEDIR \
         KRB5* PAM_* FILE__* MAGIC LANG LANGUAGE LC_* OUTPUT_CHARSET TEXTDOMAIN* CHARSET* TZ* TERM TERMCAP TERMINFO* \
         COLUMNS LINES *_COLOR CLICOLOR* HOST* RES_* RESOLV_* LOCALDOMAIN",
    ),
    family(
        "tools that start others, ask for passwords or speak to servers",
        "LESS* MORE MOST_* BAT_* DELTA_* LS_COLORS MANOPT MANROFFOPT GROFF_* VISUAL BROWSER DIFFPROG MERGETOOL* VIM* \
         EXINIT NVIM_* EMACS* HG* SVN_* CVS_* RSYNC[_*] FZF_* ACK[_*] ACKRC GREP[_*] GZIP BZIP* XZ_* ZSTD_* UNZIP* \
         ZIPOPT TAPE RSH PARALLEL* SCREEN* TMUX* MAIL* SSH[_*] SUDO[_*] DOAS[_*] PKEXEC_* GPG[_*] PINENTRY_* GCM_* \
         NETRC PASSWORD_STORE_* VAULT_* SOPS_* AGE_* SOCKS_* TSOCKS_* PROXYCHAINS_* REQUEST_METHOD SSL* OPENSSL[_*] \
         CURL[_*] WGET* CAINFO NSS_* GNUTLS_* TLS_* P11_KIT_*",
    ),
    family(
        "languages and their packagers",
        "PYTHON* PY_* PYENV* PIP[_*] PIPX[_*] PIPENV_* POETRY[_*] UV[_*] VIRTUAL_ENV* CONDA* MAMBA_* TOX[_*] NOX_* \
         PYTEST[_*] IPYTHON* JUPYTER* DJANGO_* FLASK_* SETUPTOOLS_* DISTUTILS_* TWINE_* PERL* CPAN* PAR_* RUBY* GEM_* \
         BUNDLE_* RBENV_* RAKE* IRBRC RAILS_* RACK_* NODE[_*] NPM[_*] NVM_* NPX[_*] YARN[_*] PNPM[_*] COREPACK_* \
         DENO[_*] BUN[_*] ELECTRON_* TS_NODE_* BABEL_* VOLTA_* TURBO_* JAVA[_*] JDK_* JRE_* JVM_* MAVEN_* MVN[_*] \
         GRADLE[_*] ANT[_*] SBT[_*] SCALA_* KOTLIN_* GROOVY_* CLOJURE_* LEIN_* JBOSS_* CATALINA_* CARGO* RUST* GO* \
         CGO_* DELVE_* DOTNET[_*] CORECLR_* COREHOST_* MONO_* MSBUILD* NUGET_* COMPLUS_* COR_* SWIFT_* ZIG_* LUA* \
         PHP* COMPOSER_* R_* RSCRIPT_* JULIA_* ERL_* ELIXIR_* MIX_* HEX_* GHC* CABAL_* STACK_* OCAML* CAML* OPAM* \
         TCL* TK_* GUILE_* RACKET* PLT* SBCL_* OCTAVE_* MATLAB_* GAWK_* POSTSCRIPT* GS_* TEXINPUTS* TEXMF* JQ[_*] \
         SQLITE_* PG* MYSQL_* DART_* PUB_* FLUTTER_* NIM_* CRYSTAL_* WASM*",
    ),
    family(
        "compilers, build tools, debuggers and system packagers",
        "MAKE* CC CXX CPP LD AR AS NM RANLIB STRIP OBJCOPY OBJDUMP FC F77 YACC LEX FLEX BISON M4 INSTALL GCC[_*] \
         CLANG[_*] LLVM_* COLLECT_* DEPENDENCIES_OUTPUT SUNPRO_DEPENDENCIES CCACHE_* SCCACHE_* DISTCC_* PKG_CONFIG* \
         CMAKE[_*] CTEST[_*] MESON* NINJA* BAZEL* BUCK* AUTOCONF* AUTOMAKE* ACLOCAL* AUTOM4TE* LIBTOOL* CONFIG_SITE \
         CROSS_* XCODE_* DEVELOPER_DIR SDKROOT ANDROID_* BINDGEN_* PROTOC* SPHINX* ESLINT[_*] JUST_* TASK_X_* \
         TASK_TEMP_DIR TASK_REMOTE_* DIRENV_* MISE_* ASDF_* RTX_* PRE_COMMIT_* HUSKY* LEFTHOOK* DEBUGINFOD_* GDB* \
         VALGRIND_* STRACE_* APT_* DPKG_* DEB_* DEBIAN_* RPM_* DNF_* HOMEBREW_* SNAP_* FLATPAK_* GUIX_*",
    ),
    family(
        "other programs that makefiles and scripts call by a variable",
        "SH SED AWK EGREP FGREP TAR CP MV RM LN CHMOD MKDIR SCP TSC JAVAC JAR",
    ),
    family(
        "browsers and their drivers, containers, clusters, clouds and telemetry",
        "PUPPETEER_* PLAYWRIGHT_* CHROME_* CYPRESS_* DOCKER[_*] BUILDKIT_* BUILDX_* COMPOSE_* CONTAINER_* \
         CONTAINERS_* CONTAINERD_* PODMAN[_*] BUILDAH[_*] REGISTRY_* KUBE* HELM[_*] MINIKUBE_* AWS[_*] AZURE_* ARM_* \
         GCP_* GCLOUD[_*] CLOUDSDK_* BOTO* GCE_* OCI_* DIGITALOCEAN_* HCLOUD_* TF_* TERRAFORM[_*] PULUMI_* \
         ANSIBLE[_*] VAGRANT_* PACKER_* CONSUL_* NOMAD_* OTEL_* SENTRY_*",
    ),
    family(
        "agents and their services: which server is given the prompt, which tools it may call",
        "ANTHROPIC_* CLAUDE* OPENAI_* CODEX_* GEMINI_* OLLAMA_* MCP_* AIDER_* COPILOT_* CURSOR_* OPENCODE_* HF_* \
         LLM_* LANGCHAIN_* LANGSMITH_*",
    ),
];

/// Prefixes of plain words that match a family (`GO*`, `LESS*`) and do not belong to it.
pub const PLAIN_WORDS: [&str; 4] = ["GOAL", "GOLD", "GOOD", "LESSON"];

/// Prefix of the workflow's own variables, which are never reserved.
pub(crate) const OWN: &str = "DWP_";

/// Whether a trailer may not set this variable.
pub fn is_reserved_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    !name.starts_with(OWN)
        && RESERVED_NAMES.iter().flat_map(ReservedFamily::patterns).any(|pattern| matches(pattern, &name))
}

fn matches(pattern: &str, name: &str) -> bool {
    if let Some(word) = pattern.strip_suffix("[_*]") {
        name.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    } else if let Some(start) = pattern.strip_suffix('*') {
        name.starts_with(start) && !PLAIN_WORDS.iter().any(|word| name.starts_with(word))
    } else if let Some(end) = pattern.strip_prefix('*') {
        name.ends_with(end)
    } else {
        name == pattern
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT 3.9
    #[test]
    fn what_is_reserved() {
        let reserved = "BODY ROLE AYNIG_BIN AYNIG_ GIT_DIR LD_PRELOAD DYLD_INSERT_LIBRARIES BASH_ENV BASH_FUNC_ls \
             ENV IFS PATH HOME PYTHONPATH PERL5OPT RUBYOPT NODE_OPTIONS npm_config_registry \
             NPM_CONFIG_REGISTRY JAVA_TOOL_OPTIONS _JAVA_OPTIONS CLASSPATH GOFLAGS CARGO_HOME \
             RUSTC_WRAPPER PAGER LESSOPEN EDITOR SSH_ASKPASS HTTP_PROXY http_proxy SSL_CERT_FILE \
             MAKEFLAGS CC LC_ALL TZ TMPDIR XDG_CONFIG_HOME DOCKER_HOST KUBECONFIG AWS_PROFILE \
             GLIBC_TUNABLES GCONV_PATH PS4 CONFIG_SITE ANTHROPIC_BASE_URL";
        let of_any_tool = "CYPRESS_RUN_BINARY ESBUILD_BINARY_PATH OTEL_EXPORTER_OTLP_ENDPOINT SENTRY_DSN \
             LANGSMITH_ENDPOINT VOLTA_HOME SE_MANAGER_PATH NIXPKGS_CONFIG TURBO_API FIREFOX_BIN MY_PATH \
             FOO_PROXY FOO_TOKEN foo_host NODE DOCKER GO GOOS SPHINXBUILD SH MAKE GIT";
        for name in reserved.split_ascii_whitespace().chain(of_any_tool.split_ascii_whitespace()) {
            assert!(is_reserved_name(name), "{name}");
        }
    }

    /// CONTRACT 3.9
    #[test]
    fn what_is_free() {
        let free = "DWP_STATE DWP_PATH DWP_ANY_TOKEN SIGNED_OFF_BY REVIEWED_BY ACKED_BY CO_AUTHORED_BY CHANGE_ID FIXES ISSUE \
             ISSUE_URL PR_URL TASK TASK_ID DOCUMENT TARGET_BRANCH GOAL GOALS GOLDEN GOOD_ONE LESSON BODYGUARD MODEL \
             AGENT FILE DIR URL CONFIG PIPELINE GITTER NODES É";
        for name in free.split_ascii_whitespace().chain([""]) {
            assert!(!is_reserved_name(name), "{name}");
        }
    }

    /// The names that patterns replaced: a name that was once refused stays refused.
    #[test]
    fn names_that_once_stood_here_are_reserved() {
        let once = "LIBPATH SHLIB_PATH GCONV_PATH SHELL PS0 PS1 PS2 PS3 PS4 PROMPT_COMMAND CDPATH FPATH NULLCMD \
             READNULLCMD PSMODULEPATH HOSTFILE MAILPATH PATH HOME TMPDIR TMP NOTIFY_SOCKET HOSTNAME MANPATH \
             INFOPATH LOCPATH NLSPATH TZ TZDIR TERMPATH NO_COLOR FORCE_COLOR HOSTALIASES RES_OPTIONS PAGER LESS \
             LESSOPEN LESSCLOSE LESSEDIT LESSCHARSET LESSCHARDEF LESSHISTFILE MANPAGER EDITOR ALTERNATE_EDITOR \
             HGEDITOR HGMERGE RIPGREP_CONFIG_PATH TAR_OPTIONS UNZIP UNZIPOPT MAILER MAILRC MAIL ASKPASS GNUPGHOME \
             HTTP_PROXY HTTPS_PROXY FTP_PROXY RSYNC_PROXY ALL_PROXY NO_PROXY SSLKEYLOGFILE WGETRC \
             REQUESTS_CA_BUNDLE CA_BUNDLE DJANGO_SETTINGS_MODULE RAKEOPT _JAVA_OPTIONS CLASSPATH M2_HOME \
             GO111MODULE GO386 GOAMD64 GOARCH GOAUTH GOBIN GOCOVERDIR GODEBUG GOENV GOEXE GOEXPERIMENT GOFIPS140 \
             GOFLAGS GOGC GOHOSTARCH GOHOSTOS GOINSECURE GOMAXPROCS GOMEMLIMIT GOMOD GOMODCACHE GONOPROXY \
             GONOSUMDB GOOS GOPATH GOPPC64 GOPRIVATE GOPROXY GORACE GORISCV64 GOSUMDB GOTMPDIR GOTOOLCHAIN \
             GOTOOLDIR GOTRACEBACK GOVCS GOVERSION GOWASM GOWORK PLTADDONDIR PLTCOLLECTS PLTCOMPILEDROOTS \
             PLTUSERHOME AWKPATH AWKLIBPATH M4PATH PSQLRC MAKE MAKEFLAGS MAKEFILES MAKELEVEL MAKEOVERRIDES \
             MAKESHELL MFLAGS GNUMAKEFLAGS CFLAGS CXXFLAGS CPPFLAGS FFLAGS LDFLAGS LDLIBS LIBS ARFLAGS ASFLAGS \
             CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH OBJC_INCLUDE_PATH LIBRARY_PATH COMPILER_PATH CONFIG_SHELL \
             SCONSFLAGS LIBCLANG_PATH";
        for name in once.split_ascii_whitespace() {
            assert!(is_reserved_name(name), "{name}");
        }
    }

    #[test]
    fn the_table_is_well_formed() {
        let all = || RESERVED_NAMES.iter().flat_map(ReservedFamily::patterns);
        let bare = |pattern: &'static str| pattern.trim_end_matches("[_*]").trim_matches('*');
        for pattern in all() {
            let legal = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
            assert!(!bare(pattern).is_empty() && bare(pattern).bytes().all(legal), "{pattern}");
            assert!(!OWN.starts_with(bare(pattern)), "{pattern}");
            assert_eq!(all().filter(|other| *other == pattern).count(), 1, "{pattern}");
        }
    }
}
