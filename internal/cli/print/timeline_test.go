package print

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/history/timeline"
)

func someEntries() []timeline.Entry {
	return []timeline.Entry{
		{At: now, Source: timeline.Step, Object: "prototype/k8s-agentpool1-24816321-vmss-2026.03.0902", Reason: "Draining", Message: "took 4m12s"},
		{At: now, Source: timeline.Event, Object: "node/ip-10-4-180-112.eu-central-1.compute.internal", Warning: true, Reason: "GeneralizationFailed",
			Message: strings.Repeat("the pod on the donor found a key ", 6), Count: 7},
		{At: now, Source: timeline.Version, Object: "version/2026.03.0902", Reason: "Built"},
	}
}

// TestTimelineFits into 80 columns, with whole messages.
func TestTimelineFits(t *testing.T) {
	var out bytes.Buffer
	if err := Timeline(&out, output.Table, someEntries()); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > narrow {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{"! GeneralizationFailed", "(7 times)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing:\n%s", want, out.String())
		}
	}
}

// TestMoreOfTimeline is what --watch adds: each entry is whole in its own form.
func TestMoreOfTimeline(t *testing.T) {
	for format, want := range map[output.Format]string{
		output.Text: "2026-03-09T12:00:00Z  Built             version/2026.03.0902: -\n",
		output.JSON: "{\n  \"at\": \"2026-03-09T12:00:00Z\",\n  \"source\": \"Version\",\n  \"object\": " +
			"\"version/2026.03.0902\",\n  \"reason\": \"Built\"\n}\n",
		output.YAML: "---\nat: \"2026-03-09T12:00:00Z\"\nobject: version/2026.03.0902\nreason: Built\nsource: Version\n",
	} {
		var out bytes.Buffer
		if err := MoreOfTimeline(&out, format, someEntries()[2:]); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", format, diff)
		}
	}
}
