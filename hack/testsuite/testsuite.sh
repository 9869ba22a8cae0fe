#!/usr/bin/env bash
# Finds, splits, runs and measures the tests that `make test` leaves out. gotestsum runs and reports them.
#
#   testsuite.sh list KIND [K/N]            tests of a suite, or of one part of it: expected seconds, package, test
#   testsuite.sh shards KIND                how many parts keep each below the limit
#   testsuite.sh needs K/N VARIABLE         succeed if a package of this part of the long suite reads the variable
#   testsuite.sh run KIND K/N [FLAG...]     run a suite or a part, with more flags of the test binary
#   testsuite.sh times KIND [PACKAGE...]    run a suite, or these packages of it, and write down the times
#   testsuite.sh schedules KIND [PACKAGE...] run the tests that docs/contribute/schedules.md names, and write how much each plays
#
# KIND is short (`go test -short`), long (each test of a package that is long as a whole, and each test function that calls
# testing.Short), or machines (tests on real machines, as root). GOTESTSUM is the program, GOTESTSUM_FORMAT its output, and
# SANDBOX_FLAGS are GOFLAGS for the packages of the sandbox.
set -euo pipefail
export LC_ALL=C
self=$(realpath "$0")
cd "$(dirname "$self")/../.."
here=hack/testsuite

# tests prints package and name of each test of a suite, in the order of the packages.
tests() {
	find . -name '*_test.go' -not -path '*/testdata/*' | sort | xargs awk -v kind="$1" '
		function end() {
			long = package ~ "^sandbox/e2e/" || package == "sandbox/capi"
			machines = package == "sandbox/machine/real"
			belongs["short"] = !long && !machines
			belongs["long"] = !machines && (long || full)
			belongs["machines"] = machines
			if (name != "" && name != "TestMain" && belongs[kind]) print package, name
			name = ""; full = 0
		}
		FNR == 1 || /^func / { end() }
		FNR == 1 { package = FILENAME; gsub("^[.]/|/[^/]*$", "", package) }
		/^func Test[^(]*[(]/ { name = $2; sub("[(].*", "", name) }
		/testing[.]Short[(][)]/ { full = 1 }
		END { end() }' | sort -s -k 1,1
}

# split prints the K-th of N parts of a suite, or with N = 0 the least number of parts. Parts are cut from the list in its order,
# so that few packages are in two parts. The longest part is as short as possible.
split() {
	# Each package takes start seconds before its first test. A test that was not measured is expected to take unknown seconds.
	tests "$1" | awk -v k="$2" -v n="$3" -v start=20 -v unknown=20 -v limit=300 '
		# cost of a test in a part: the first test of each package pays for the start of the package.
		function cost(i, first) { return seconds[i] + (first || package[i] != package[i - 1] ? start : 0) }
		# cut fills part[] and returns the number of parts of at most bound seconds, or of one test.
		function cut(bound,   i, sum, parts) {
			for (i = 1; i <= count; i++) {
				if (i == 1 || sum + cost(i) > bound) { parts++; sum = cost(i, 1) } else sum += cost(i)
				part[i] = parts
			}
			return parts
		}
		FILENAME != "-" { measured[$1, $2] = $3; next }
		{
			count++; package[count] = $1; name[count] = $2
			seconds[count] = ($1, $2) in measured ? measured[$1, $2] : unknown
			high += seconds[count] + start
		}
		END {
			if (n == 0) { print cut(limit); exit }
			while (high - low > 0.1) { middle = (low + high) / 2; if (cut(middle) > n) low = middle; else high = middle }
			cut(high)
			for (i = 1; i <= count; i++) if (part[i] == k) printf "%6.1f %s %s\n", seconds[i], package[i], name[i]
		}' $here/times.tsv -
}

list() {
	local shard=${2:-1/1}
	if ! [[ $shard =~ ^([1-9][0-9]*)/([1-9][0-9]*)$ ]] || ((BASH_REMATCH[1] > BASH_REMATCH[2])); then
		echo "$shard is not a part: want K/N with K from 1 to N, for example 2/9" >&2
		return 2
	fi
	split "$1" "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
}

# events runs the listed tests, as many packages at once as there are processors, longest first, and prints the events of each
# at its end. A test on machines has a process of its own.
events() {
	awk -v kind="$kind" '
		{ key = kind == "machines" ? $2 " " $3 : $2; sum[key] += $1; package[key] = $2; tests[key] = tests[key] "|" $3 }
		END { for (key in sum) printf "%.1f %s ^(%s)$\n", sum[key], package[key], substr(tests[key], 2) }' |
		sort -rn | cut -d ' ' -f 2- | xargs -r -L 1 -P "$(nproc)" "$self" one "$@"
}

# one prints the events of one process of tests. Its arguments end with package and pattern.
one() {
	local package=${*: -2:1} pattern=${*: -1} flags=("${@:1:$#-2}") out status=0
	out=$(mktemp -p "$scratch")
	if [[ $package == sandbox/* ]]; then
		cd sandbox
		export GOFLAGS=${SANDBOX_FLAGS:-}
	fi
	if [[ $kind == machines ]]; then
		# Mounts of its own: a machine keeps every disk busy that was mounted at the machine's start.
		cd "${package#sandbox/}"
		go tool test2json -t -p "$package" unshare --mount "$scratch/machines.test" -test.v=test2json -test.timeout=40m \
			-test.run "$pattern" "${flags[@]}" >"$out" 2>&1 || status=1
	else
		go test -json -vet=off -count=1 -timeout=40m "${flags[@]}" -run "$pattern" "./${package#sandbox/}" >"$out" || status=1
	fi
	flock "$scratch" cat "$out"
	return $status
}

run() {
	local part=${2:-1/1} list=$scratch/list
	export kind=$1
	list "$kind" "$part" >"$list"
	if ((${#packages[@]})); then
		list "$kind" | grep -F "$(printf ' %s \n' "${packages[@]}")" >"$list"
	fi
	echo "$kind suite, part $part: $(wc -l <"$list") tests of $(awk '{ print $2 }' "$list" | sort -u | wc -l) packages"
	if [[ $kind == machines ]]; then
		(cd sandbox && GOFLAGS=${SANDBOX_FLAGS:-} go test -c -vet=off -tags machines -o "$scratch/machines.test" ./machine/real)
	fi
	"$GOTESTSUM" --format-icons text --hide-summary skipped --jsonfile-timing-events "$scratch/events" --raw-command -- "$self" events "${@:3}" <"$list"
}

times() {
	local status=0 flags=(-exec "$self measured")
	packages=("${@:2}")
	case $1 in
	short) flags+=(-short) ;;
	machines) flags=() ;;
	esac
	run "$1" 1/1 "${flags[@]}" || status=$?
	figures | tee "$scratch/figures"
	if [[ $1 != short ]]; then
		{ tests long && tests machines; } | awk 'FILENAME != "-" { if (NF == 3) seconds[$1, $2] = $3; next }
			($1, $2) in seconds { printf "%s\t%s\t%.1f\n", $1, $2, seconds[$1, $2] }' $here/times.tsv "$scratch/figures" - | sort >"$scratch/times.tsv"
		cp "$scratch/times.tsv" $here/times.tsv
	fi
	[[ $1 == machines ]] || page "$1"
	return $status
}

# schedules writes the numbers of schedules and worlds that tests log into their rows. Rows of other packages stay.
schedules() {
	local page=docs/contribute/schedules.md status=0 flags=()
	packages=("${@:2}")
	[[ $1 == long ]] || flags=(-short)
	export kind=$1
	sed -n 's/^| `\([^`]*\)` `\([^`]*\)`.*/0 \1 \2/p' $page >"$scratch/rows"
	if ((${#packages[@]})); then
		printf ' %s \n' "${packages[@]}" | grep -F -f - "$scratch/rows" >"$scratch/list"
	else
		cp "$scratch/rows" "$scratch/list"
	fi
	events "${flags[@]}" <"$scratch/list" >"$scratch/events" || status=$?
	awk -F '|' -v OFS='|' -v column=$([[ $1 == short ]] && echo 3 || echo 4) '
		function word(key,   text) {
			text = match($0, "\"" key "\":\"[^\"]*") ? substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 4) : ""
			return text
		}
		FILENAME ~ "/events$" {
			if (match($0, ": [0-9]+ (schedules|worlds)")) {
				said = substr($0, RSTART + 2, RLENGTH - 2); package = word("Package"); test = word("Test")
				sub("^github.com/kamino-dev/kamino/", "", package); sub("/.*", "", test)
				played[package " " test] += said
			}
			next
		}
		/^[|] `/ { split($2, of, "`"); key = of[2] " " of[4]; if (key in played) $column = " " played[key] " " }
		{ print }' "$scratch/events" $page >"$scratch/page"
	cp "$scratch/page" $page
	grep '"Action":"fail"' "$scratch/events" >&2 || true
	return $status
}

# measured runs a test binary for `go test -exec`, and notes the processor time of the binary and its children.
measured() {
	local status=0
	cd "$OLDPWD" # the folder of the package
	"$@" || status=$?
	{ pwd && builtin times; } >"$(mktemp -p "$scratch" usage.XXXX)"
	return $status
}

# figures prints what the events and notes of passed packages say: "package test seconds", or "package", CPU and wall seconds, "s".
# The tests of a package share its wall time, because they run next to each other.
figures() {
	awk -v root="$PWD/" '
		function seconds(text,   parts) { split(text, parts, "m"); return parts[1] * 60 + parts[2] }
		function field(key) { return match($0, "\"" key "\":[^,}]*") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) : "" }
		function word(key,   text) { text = field(key); gsub("\"", "", text); return text }
		FILENAME ~ "/usage[.]" {
			if (FNR == 1) dir = substr($0, length(root) + 1)
			if (FNR == 3) cpu[dir] += seconds($1) + seconds($2)
			next
		}
		{ package = word("Package"); sub("^github.com/kamino-dev/kamino/", "", package); test = word("Test"); action = word("Action") }
		test == "" { wall[package] += field("Elapsed"); if (action == "fail") failed[package] }
		test != "" && test !~ "/" && (action == "pass" || package != "sandbox/machine/real") { took[package, test] += field("Elapsed"); sum[package] += field("Elapsed") }
		END {
			for (key in took) {
				split(key, at, SUBSEP)
				of = at[1]
				if (!(of in failed)) print of, at[2], took[key] * wall[of] / (sum[of] > wall[of] ? sum[of] : wall[of] + 0.001)
			}
			for (of in wall) if (!(of in failed)) printf "%s %.1f %.1f s\n", of, cpu[of], wall[of]
		}' $(find "$scratch" -name "usage.*") "$scratch/events" | sort
}

# page writes the figures into the rows of their packages. Packages without a row are in the row "others", if they take less than
# two CPU seconds. If only some packages were measured, other rows stay.
page() {
	local page=docs/contribute/tests.md
	awk -F '|' -v OFS='|' -v first=$([[ $1 == short ]] && echo 3 || echo 5) -v whole=$((${#packages[@]} == 0)) '
		function row() { match($2, "`.*`"); return /^\| `/ ? substr($2, RSTART + 1, RLENGTH - 2) : "" }
		FILENAME ~ "/figures$" { if (split($0, at, " ") == 4) { cpu[at[1]] = at[2]; wall[at[1]] = at[3] } next }
		FILENAME != last { pass++; last = FILENAME }
		pass == 1 { listed[row()]; next }
		FNR == 1 {
			for (of in wall) if (!(of in listed)) {
				cpu["others"] += cpu[of]; wall["others"] += wall[of]
				if (cpu[of] >= 2) print "the page has no row for " of >"/dev/stderr"
			}
		}
		row() != "" && (whole || row() in wall && row() != "others") {
			$first = $(first + 1) = " - "
			if (wall[row()] > 0) { $first = sprintf(" %.1f ", cpu[row()]); $(first + 1) = sprintf(" %.1f ", wall[row()]) }
		}
		{ print }' "$scratch/figures" $page ./$page >"$scratch/page"
	cp "$scratch/page" $page
}

command=$1
shift
packages=()
case $command in
list | events | one | measured) "$command" "$@" ;;
shards) split "$1" 0 0 ;;
needs) list long "$1" | awk '{ print $2 "/" }' | sort -u | xargs -I{} find {} -maxdepth 1 -name '*_test.go' | xargs grep -q -e "$2" ;;
run | times | schedules)
	scratch=$(mktemp -d)
	export scratch
	trap 'rm -rf "$scratch"' EXIT
	"$command" "$@"
	;;
*)
	sed -n '2,/^set/s/^# \{0,1\}//p' "$self" >&2
	exit 2
	;;
esac
