package realcloud_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/sandbox/realcloud"
	"github.com/kamino-dev/kamino/sandbox/realcloud/aws"
	"github.com/kamino-dev/kamino/sandbox/realcloud/azure"
)

func clouds() []*realcloud.Cloud { return []*realcloud.Cloud{aws.Cloud(), azure.Cloud()} }

// eachCloud runs a test for each cloud.
func eachCloud(t *testing.T, run func(*testing.T, *realcloud.Cloud)) {
	t.Helper()
	for _, c := range clouds() {
		t.Run(c.Name, func(t *testing.T) { run(t, c) })
	}
}

// lab is a simulated account, as the command sees it.
type lab struct {
	*testing.T
	cloud   *realcloud.Cloud
	account *realcloud.Account
	report  string
	end     func()
}

func newLab(t *testing.T, cloud *realcloud.Cloud, policy string) *lab {
	t.Helper()
	account, end, err := cloud.Simulate(policy)
	if err != nil {
		t.Fatal(err)
	}
	once := sync.OnceFunc(end)
	t.Cleanup(once)
	cloud.Connect = func(context.Context, string) (*realcloud.Account, error) { return account, nil }
	return &lab{t, cloud, account, filepath.Join(t.TempDir(), "report.json"), once}
}

// command runs the program.
func (l *lab) command(ctx context.Context, answer string, args ...string) (code int, out string) {
	var text bytes.Buffer
	code = realcloud.Main(ctx, []*realcloud.Cloud{l.cloud}, slices.Insert(args, 1, "--cloud", l.cloud.Name), strings.NewReader(answer), &text, &text)
	return code, text.String()
}

func (l *lab) run(ctx context.Context, more ...string) (code int, out string) {
	return l.command(ctx, "", append([]string{"run", "--yes", "--report", l.report}, more...)...)
}

func (l *lab) wantEmpty(when string) {
	l.Helper()
	if left := l.account.Left(); len(left) > 0 {
		l.Errorf("%s: left: %s", when, strings.Join(left, ", "))
	}
}

func (l *lab) wantReport() *realcloud.Report {
	l.Helper()
	r, err := realcloud.Read(l.report)
	if err != nil {
		l.Fatal(err)
	}
	for _, c := range r.Checks {
		if c.Outcome != realcloud.AsAssumed {
			l.Errorf("%s %s: %s", c.Name, c.Outcome, c.Seen)
		}
	}
	if len(r.Checks) != len(l.cloud.Assumptions) {
		l.Errorf("%d of %d checks ran", len(r.Checks), len(l.cloud.Assumptions))
	}
	return r
}

// identifying are forms of what no report has.
var identifying = regexp.MustCompile(`(?i)\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b(?:i|vol|snap|ami|vpc|subnet|lt)-[0-9a-f]{17}\b|\b[0-9]{12}\b|` +
	`AKIA[A-Z0-9]{16}|\beyJ\w{8}|[?&]sig=|user/someone`)

func TestWholeRun(t *testing.T) {
	eachCloud(t, func(t *testing.T, cloud *realcloud.Cloud) {
		l := newLab(t, cloud, "")
		code, out := l.run(t.Context())
		t.Log(out)
		if code != 0 {
			t.Fatalf("the run ended with %d", code)
		}
		r := l.wantReport()
		t.Logf("%d calls in %s of the cloud's time", len(r.Calls), r.Ended.Sub(r.Began))
		for _, m := range r.Measured {
			t.Logf("%6.1f s %s", m.Seconds, m.What)
		}
		for _, f := range r.Refusals {
			t.Logf("%s: %s: %s", f.Action, f.Code, f.Text)
		}
		l.wantEmpty("after the run")
		text, err := os.ReadFile(l.report)
		if err != nil {
			t.Fatal(err)
		}
		if found := identifying.Find(text); found != nil {
			t.Errorf("the report of a run has %s", found)
		}
		if code, out := l.command(t.Context(), "", "compare", l.report); code != 0 || !strings.Contains(out, ": 0 differences") {
			t.Errorf("the simulation differs from itself: %s", out)
		}
	})
}

// TestReports plays back the reports of real clouds. A difference is fixed in the simulation.
func TestReports(t *testing.T) {
	files, err := filepath.Glob("testdata/reports/*.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("no one has sent a report yet")
	}
	out := &bytes.Buffer{}
	if code := realcloud.Main(t.Context(), clouds(), append([]string{"compare"}, files...), nil, out, out); code != 0 {
		t.Error(out)
	}
}

// TestTables holds the checks and the tables of the pages together.
func TestTables(t *testing.T) {
	eachCloud(t, func(t *testing.T, cloud *realcloud.Cloud) {
		page := read(t, "reference/"+cloud.Page)
		_, table, found := strings.Cut(page, "\n## Not verified on real ")
		if !found {
			t.Fatal("the page has no table")
		}
		table, _, _ = strings.Cut(table, "\n## ")
		rows, covered := map[string]int{}, map[string]int{}
		for _, row := range regexp.MustCompile(`(?m)^\| [\w ]+ \| (.+) \|$`).FindAllStringSubmatch(table, -1) {
			if row[1] != "assumption" {
				rows[row[1]]++
			}
		}
		for _, a := range cloud.Assumptions {
			covered[a.Sentence]++
		}
		for sentence, reason := range cloud.Unchecked {
			if covered[sentence]++; reason == "" {
				t.Errorf("%q is not checked, without a reason", sentence)
			}
		}
		for sentence := range rows {
			if covered[sentence] != 1 {
				t.Errorf("%d checks or reasons for the row %q", covered[sentence], sentence)
			}
		}
		for sentence := range covered {
			if rows[sentence] != 1 {
				t.Errorf("no row of the page for %q", sentence)
			}
		}
	})
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// death kills a run before or after a change.
type death struct {
	mu     sync.Mutex
	at     int
	after  bool
	seen   int
	action string
	kill   context.CancelCauseFunc
}

var errKilled = errors.New("killed")

func (d *death) intercept(ctx context.Context, r realcloud.Request, after bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.Effect == realcloud.Reads {
		return ctx.Err()
	}
	if !after {
		d.seen++
	}
	if d.seen == d.at && after == d.after && d.action == "" {
		d.action = r.Action
		d.kill(errKilled)
		return errKilled
	}
	return ctx.Err()
}

// killedAt runs until a change; the name of the action is empty if the run has fewer changes.
func (l *lab) killedAt(at int, after bool, more ...string) string {
	l.Helper()
	ctx, kill := context.WithCancelCause(l.Context())
	defer kill(nil)
	d := &death{at: at, after: after, kill: kill}
	l.account.Intercept = d.intercept
	code, out := l.run(ctx, more...)
	l.account.Intercept = nil
	switch {
	case d.action == "" && code != 0:
		l.Fatalf("the run ended with %d: %s", code, out)
	case d.action != "" && code == 0:
		l.Errorf("the run survived its death in %s", d.action)
	}
	return d.action
}

// TestKilled kills the run before and after each change. clean, which knows nothing of the run, then leaves nothing. The short suite
// takes a few changes.
func TestKilled(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 20
	}
	eachCloud(t, func(t *testing.T, cloud *realcloud.Cloud) {
		for _, after := range []bool{true, false} {
			for at := 1; !testing.Short() || after; at += step {
				l := newLab(t, cloud, "")
				action := l.killedAt(at, after, "--run", "rtestz")
				if action == "" {
					break
				}
				when := fmt.Sprintf("killed at change %d, %s, answered: %t", at, action, after)
				t.Log(when)
				if code, out := l.command(t.Context(), "", "clean"); code != 0 {
					t.Errorf("%s: %s", when, out)
				}
				l.wantEmpty(when)
				l.end()
			}
		}
	})
}

// TestContinues kills the run in several parts of it, and runs the command again.
func TestContinues(t *testing.T) {
	makesOnce := map[string]string{"aws": "CreateVpc", "azure": "PUT the resource group"}
	eachCloud(t, func(t *testing.T, cloud *realcloud.Cloud) {
		for _, at := range []int{2, 8, 12, 16, 20, 25, 30, 34, 38, 42} {
			for _, after := range []bool{false, true} {
				if testing.Short() && (at != 25 || !after) {
					continue
				}
				l := newLab(t, cloud, "")
				action := l.killedAt(at, after)
				if action == "" {
					t.Fatalf("the run has fewer than %d changes", at)
				}
				if err := l.account.Wait(t.Context(), time.Minute); err != nil {
					t.Fatal(err)
				}
				when := fmt.Sprintf("after a death at change %d, %s, answered: %t", at, action, after)
				code, out := l.run(t.Context())
				if code != 0 {
					t.Fatalf("%s: %s", when, out)
				}
				t.Log(when)
				made := 0
				for _, c := range l.wantReport().Calls {
					if c.Action == makesOnce[cloud.Name] && c.Status < 300 {
						made++
					}
				}
				if made != 1 {
					t.Errorf("%s: %d of what is made once", when, made)
				}
				l.wantEmpty("continued")
			}
		}
	})
}

// TestPolicyIsEnough runs as a user who may only do what the printed policy says.
func TestPolicyIsEnough(t *testing.T) {
	eachCloud(t, func(t *testing.T, cloud *realcloud.Cloud) {
		policy, err := cloud.Policy("rtestz")
		if err != nil {
			t.Fatal(err)
		}
		l := newLab(t, cloud, string(policy))
		if code, out := l.run(t.Context(), "--run", "rtestz"); code != 0 {
			t.Fatal(out)
		}
		for _, f := range l.wantReport().Refusals {
			if slices.Contains([]string{"UnauthorizedOperation", "AccessDenied", "AuthorizationFailed", "LinkedAuthorizationFailed"}, f.Code) {
				t.Errorf("%s: %s", f.Action, f.Text)
			}
		}
		l.wantEmpty("with few rights")
	})
}

// TestOnlyTheGuard holds that no client is made beside those of a session, and that only the wire sends.
func TestOnlyTheGuard(t *testing.T) {
	allowed := map[string]map[string]int{
		`\.NewFromConfig\(`:              {"aws/session.go": 4},
		`Transport\.Do\(`:                {"wire.go": 1},
		`[^t]\.Do\(`:                     {"azure/session.go": 2}, // the SDK's pipeline, and the course for a console
		`http\.(?:Get|Post|Head)\(`:      {},
		`http\.NewRequest`:               {"azure/session.go": 1},
		`HTTPClient = c\b`:               {"aws/session.go": 1},
		`Transport: c\b`:                 {"azure/session.go": 1},
		`exec\.Command`:                  {"cluster/cluster.go": 1}, // kamino itself, with the rights that the user gives
		`arm\.NewClient|armcompute\.New`: {"azure/session.go": 1},
	}
	files, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(append(files, more...), "../cmd/verify-cloud/main.go") {
		if strings.HasSuffix(file, "_test.go") || filepath.Base(file) == "simulated.go" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for form, in := range allowed {
			if n := len(regexp.MustCompile(form).FindAll(text, -1)); n != in[file] {
				t.Errorf("%s has %d of %s, not %d", file, n, form, in[file])
			}
		}
	}
}

func TestPriceIsBelowTheLimit(t *testing.T) {
	eachCloud(t, func(t *testing.T, cloud *realcloud.Cloud) {
		l := newLab(t, cloud, "")
		code, out := l.command(t.Context(), "", "run", "--limit", "0.01", "--yes")
		if code != 1 || !strings.Contains(out, "the limit is 0.01 $") || !strings.Contains(out, "ASSUMED PRICE") {
			t.Errorf("got %d and\n%s", code, out)
		}
		l.wantEmpty("above the limit")
		if code, out := l.run(t.Context(), "--limit", fmt.Sprint(realcloud.DefaultLimit), "--run", "rtestz"); code != 0 {
			t.Error(out)
		}
	})
}

// TestNamesACloud: no cloud is the default.
func TestNamesACloud(t *testing.T) {
	for args, want := range map[string]string{"run": "aws or azure", "clean --cloud gcp": `"gcp"`, "price --cloud": "", "compare": "REPORT"} {
		out := &bytes.Buffer{}
		if code := realcloud.Main(t.Context(), clouds(), strings.Fields(args), nil, out, out); code == 0 || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %d, %s", args, code, out)
		}
	}
}

func TestNothingWithoutYes(t *testing.T) {
	eachCloud(t, func(t *testing.T, cloud *realcloud.Cloud) {
		l := newLab(t, cloud, "")
		changed := false
		l.account.Intercept = func(_ context.Context, r realcloud.Request, _ bool) error {
			changed = changed || r.Effect != realcloud.Reads
			return nil
		}
		if code, out := l.command(t.Context(), "no\n", "run", "--report", l.report); code != 1 || changed {
			t.Errorf("got %d, changed: %t\n%s", code, changed, out)
		}
	})
}

// TestDryRunNamesPermissions: each permission of the policy is needed, and each is printed.
func TestDryRunNamesPermissions(t *testing.T) {
	eachCloud(t, func(t *testing.T, cloud *realcloud.Cloud) {
		out := &bytes.Buffer{}
		if code := realcloud.Main(t.Context(), clouds(), []string{"dry-run", "--cloud", cloud.Name}, nil, out, out); code != 0 {
			t.Fatal(out)
		}
		for _, p := range cloud.Permissions {
			if !strings.Contains(out.String(), p) && p != "sts:GetCallerIdentity" && p != "Microsoft.Resources/subscriptions/read" {
				t.Errorf("the dry run has no %s: no run needs it, or the simulation hides it", p)
			}
		}
	})
}

// TestPages holds the pages to the program: the price, the number of checks, and a row for each report.
func TestPages(t *testing.T) {
	page := read(t, "contribute/verify-cloud.md")
	eachCloud(t, func(t *testing.T, cloud *realcloud.Cloud) {
		prices := &bytes.Buffer{}
		if code := realcloud.Main(t.Context(), clouds(), []string{"price", "--cloud", cloud.Name}, nil, prices, prices); code != 0 {
			t.Fatal(prices)
		}
		for _, text := range []string{"```text\n" + prices.String() + "```\n", fmt.Sprintf("| %s | %d |", cloud.Name, len(cloud.Assumptions))} {
			if !strings.Contains(page, text) {
				t.Errorf("docs/contribute/verify-cloud.md lacks\n%s", text)
			}
		}
	})
	_, table, found := strings.Cut(read(t, "reference/verification.md"), "| cloud | region | month |")
	table, _, _ = strings.Cut(table, "\n\n")
	reports, err := filepath.Glob("testdata/reports/*.json")
	if err != nil || !found || strings.Count(table, "\n")-1 != len(reports) {
		t.Errorf("docs/reference/verification.md has %d rows for %d reports: %v", strings.Count(table, "\n")-1, len(reports), err)
	}
}
