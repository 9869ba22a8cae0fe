package apt

import (
	"regexp"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/patch"
)

// Transaction is what apt would do.
type Transaction struct {
	Install []patch.Change
	// Remove, KeptBack and Held are names of packages. Held packages would change if the transaction ran.
	Remove, KeptBack, Held []string
}

// A line of a simulation: Inst NAME [OLD] (NEW LABEL:VERSION/SUITE, LABEL:VERSION/SUITE [ARCH]).
var instLine = regexp.MustCompile(`^Inst (\S+) (?:\[(\S+)\] )?\((\S+) ?(.*?) ?\[(\S+)\]\)`)

// Headers of lists of names, which follow in indented lines. Source: apt, apt-private/private-output.cc.
const (
	keptBackHeader = "The following packages have been kept back:"
	phasedHeader   = "The following upgrades have been deferred due to phasing:"
	heldHeader     = "The following held packages will be changed:"
)

// ParseSimulation reads the output of apt-get -s.
func ParseSimulation(output string) Transaction {
	var t Transaction
	var list *[]string
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\r\n")
		if strings.HasPrefix(line, "  ") && list != nil {
			*list = append(*list, strings.Fields(line)...)
			continue
		}
		list = nil
		switch line {
		case keptBackHeader, phasedHeader:
			list = &t.KeptBack
		case heldHeader:
			list = &t.Held
		}
		if m := instLine.FindStringSubmatch(line); m != nil {
			t.Install = append(t.Install, patch.Change{Name: m[1], From: m[2], To: m[3], Arch: m[5], Origin: m[4], Security: security(m[4])})
		}
		for _, verb := range []string{"Remv ", "Purg "} {
			if rest, found := strings.CutPrefix(line, verb); found {
				name, _, _ := strings.Cut(rest, " ")
				t.Remove = append(t.Remove, name)
			}
		}
	}
	slices.Sort(t.Remove)
	t.Remove = slices.Compact(t.Remove)
	return t
}

// security reports whether one of the origins is a security suite: its label is Debian-Security, or its name ends with
// -security. A mirror may change the label, and Ubuntu's label is Ubuntu.
func security(origins string) bool {
	for origin := range strings.SplitSeq(origins, ", ") {
		label, suite, _ := strings.Cut(origin, ":")
		if label == "Debian-Security" || strings.HasSuffix(suite, "-security") {
			return true
		}
	}
	return false
}
