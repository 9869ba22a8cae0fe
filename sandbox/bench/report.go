package bench

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// Limits of a capture's figures.
const (
	maxRatio = 1.05
	// maxCPU is relative to `kubectl get nodes` of the same run, because seconds depend on the machine.
	maxCPU      = 5
	maxMemory   = 28 << 20
	maxRequests = 38
	// maxReturned and maxReplaced limit the whole captures of a donor that returns and of a replaced donor, in simulated
	// time. 100 s of a capture belong to the cloud, and the pool grows for a replaced donor.
	maxReturned = 160 * time.Second
	maxReplaced = 180 * time.Second
	// maxAway is for how long a donor may be out of service at the sandbox's own latencies.
	maxAway = 100 * time.Second
)

// Requests of a capture to Azure Resource Manager.
type Requests struct {
	// Counted are reads and writes. Polls read unfinished work: long operations, and the same resource again without
	// a write in between.
	Counted     int            `json:"counted"`
	Polls       int            `json:"polls"`
	ByOperation map[string]int `json:"byOperation"`
}

// Report holds the measurements; nil means not measured.
type Report struct {
	*Capture
	// Defaults is a capture at the sandbox's own latencies.
	Defaults *Capture `json:"defaults,omitempty"`
	Scale    *Scale   `json:"scale,omitempty"`
	Verbs    *Verbs   `json:"verbs,omitempty"`
	Tree     *Tree    `json:"tree,omitempty"`
}

// Capture is the measurement of a capture.
type Capture struct {
	TimeScale float64     `json:"timeScale"`
	Donor     Times       `json:"donor"`
	Command   CommandCost `json:"command"`
	// Yardstick is the CPU of one `kubectl get nodes` in the same sandbox.
	Yardstick    time.Duration `json:"yardstick"`
	Requests     Requests      `json:"requests"`
	KaminoBytes  int64         `json:"kaminoBytes"`
	SandboxBytes int64         `json:"sandboxBytes"`
	// Stops is how often the cloud was asked to stop the donor.
	Stops int `json:"stops"`
	// Replacement is a capture in the same sandbox whose donor is replaced; nil if not measured.
	Replacement *Replacement `json:"leaving,omitempty"`
	// Trial is a capture in the same sandbox with a trial; nil if not measured.
	Trial *Trial `json:"trying,omitempty"`
	// Latencies of the run, with the defaults.
	Latencies []Latency `json:"latencies"`
}

// check is a figure with a limit.
type check struct {
	what   string
	missed bool
}

// Markdown writes the report as a table, and the latencies of the captures as another.
func (r Report) Markdown(w io.Writer) error {
	var rows [][3]string
	if r.Capture != nil {
		rows = slices.Concat(rows, r.Capture.rows(), r.Capture.replacementRows(), r.Capture.trialRows())
	}
	if r.Defaults != nil {
		rows = append(rows, r.Defaults.defaultRows()...)
	}
	if r.Scale != nil {
		rows = append(rows, r.Scale.rows()...)
	}
	if r.Verbs != nil {
		rows = append(rows, r.Verbs.rows()...)
	}
	if r.Tree != nil {
		rows = append(rows, r.Tree.rows()...)
	}
	if _, err := fmt.Fprintln(w, "| figure | measured | limit |\n|---|---|---|"); err != nil {
		return err
	}
	for _, row := range rows {
		if _, err := fmt.Fprintf(w, "| %s | %s | %s |\n", row[0], row[1], row[2]); err != nil {
			return err
		}
	}
	return latencyTable(w, r.Defaults, r.Capture)
}

// Missed names the figures beyond their limits.
func (r Report) Missed() []string {
	var checks []check
	if r.Capture != nil {
		checks = append(checks, r.Capture.checks()...)
	}
	if r.Defaults != nil {
		checks = append(checks, r.Defaults.defaultChecks()...)
	}
	if r.Scale != nil {
		checks = append(checks, r.Scale.checks()...)
	}
	if r.Verbs != nil {
		checks = append(checks, r.Verbs.checks()...)
	}
	if r.Tree != nil {
		checks = append(checks, r.Tree.checks()...)
	}
	var missed []string
	for _, c := range checks {
		if c.missed {
			missed = append(missed, c.what)
		}
	}
	return missed
}

// original is the time out of service with the Python original, in the same sandbox with default latencies. There,
// the stop of a stopped guest took 5 s. The original's wait for its published log adds about 110 s.
const original = 113 * time.Second

// outOfServiceParts lists the parts of the donor's time out of service.
func (r Capture) outOfServiceParts() string {
	d := r.Donor
	return fmt.Sprintf("%s (drain %s, stop %s, snapshot %s, start to Ready %s)",
		seconds(d.Cloud()), seconds(d.Drain), seconds(d.Stop), seconds(d.Snapshot), seconds(d.Start))
}

// defaultRows are the rows of the run with default latencies.
func (r Capture) defaultRows() [][3]string {
	return [][3]string{
		{"at the sandbox's own latencies: donor out of service", seconds(r.Donor.OutOfService),
			fmt.Sprintf("at most %.0f s; the original %.0f s", maxAway.Seconds(), original.Seconds())},
		{"cloud and cluster within", r.outOfServiceParts(), ""},
		{"requests to stop the donor after the power-off", fmt.Sprint(r.Stops), "0"},
		{"latencies of this run", described(r.Latencies), ""},
	}
}

func (r Capture) defaultChecks() []check {
	return []check{{"donor away at the sandbox's own latencies", r.Donor.OutOfService > maxAway}, {"unnecessary stops", r.Stops > 0}}
}

func (r Capture) rows() [][3]string {
	d := r.Donor
	return [][3]string{
		{"donor out of service", seconds(d.OutOfService), ""},
		{"cloud and cluster within", r.outOfServiceParts(), ""},
		{"latencies of this run", described(r.Latencies), ""},
		{"ratio of the two", fmt.Sprintf("%.3f", d.Ratio()), fmt.Sprintf("at most %.2f", maxRatio)},
		{"CPU of the command, whole capture", fmt.Sprintf("%.2f s: %.1f times one `kubectl get nodes`", r.Command.CPU.Seconds(), r.cost()),
			fmt.Sprintf("at most %d times", maxCPU)},
		{"peak memory of the command", mebibytes(r.Command.PeakMemory), "at most " + mebibytes(maxMemory)},
		{"requests to Azure, polls apart", fmt.Sprintf("%d (and %d polls)", r.Requests.Counted, r.Requests.Polls), fmt.Sprintf("at most %d", maxRequests)},
		{"size of `kamino`", mebibytes(r.KaminoBytes), ""},
		{"size of `kamino-sandbox`, Kubernetes included", mebibytes(r.SandboxBytes), ""},
	}
}

// took is the simulated time of the whole capture.
func (r Capture) took() time.Duration { return time.Duration(float64(r.Command.Wall) * r.TimeScale) }

// cost is the command's CPU against the yardstick's.
func (r Capture) cost() float64 { return r.Command.CPU.Seconds() / r.Yardstick.Seconds() }

func (r Capture) checks() []check {
	return append(slices.Concat(r.tryingChecks(), r.replacementChecks()),
		check{"ratio", r.Donor.Ratio() > maxRatio},
		check{"CPU", r.cost() > maxCPU},
		check{"time of a capture", r.took() > maxReturned},
		check{"memory", r.Command.PeakMemory > maxMemory},
		check{"requests", r.Requests.Counted > maxRequests},
	)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
