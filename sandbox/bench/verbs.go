package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/child"
)

// verbSizes are the clusters for the verbs. Each pool has a policy, and the Prototypes are of ten days and of three.
var verbSizes = []struct{ pools, nodes int }{{100, 5000}, {300, 15_000}}

const (
	verbPrototypes = 1001
	verbTries      = 3
)

// verbs are the commands over all pools, with the limits of their times as multiples of the time of a LIST of the nodes.
var verbs = []struct {
	name  string
	limit float64
	run   measurement
}{{"status", 2, measured}, {"plan", 2.5, measured}, {"doctor", 4, refusing}, {"report", 4, measured}, {"dashboard", 3, firstPage}}

// measurement runs a program, and returns its cost.
type measurement func(ctx context.Context, p child.Programs, binary string, args ...string) (CommandCost, error)

// maxPage is the limit of the dashboard's page, in bytes.
const maxPage = 150 << 10

// verbCost is the cost of a command in a large cluster.
type verbCost struct {
	// walls are from the start to the end of the process, cpus are user and system time.
	walls, cpus []time.Duration
	// peak is the highest anonymous resident size of all runs, in bytes.
	peak int64
	// requests to the API server of the last run, and those to Azure.
	requests, azure int
	// page is the size of the page, in bytes.
	page int
}

// RunVerbs measures commands on a real API server with the nodes, Prototypes and policies of large clusters.
func RunVerbs(ctx context.Context, o Options) (r Report, err error) {
	for _, size := range verbSizes {
		figures, err := runVerbs(ctx, o.withDefaults(), size.pools, size.nodes)
		if err != nil {
			return nil, err
		}
		r = append(r, figures...)
	}
	return r, nil
}

func runVerbs(ctx context.Context, o Options, pools, nodes int) (r Report, err error) {
	dir, err := os.MkdirTemp("", "kamino-verbs-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o.Say("starting an API server and a cloud with %d pools", pools)
	c, err := startCluster(ctx, o, dir, pools, nodes)
	if err != nil {
		return nil, fmt.Errorf("start a cluster: %w", err)
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	o.Say("making %d nodes, %d Prototypes and %d policies", nodes, verbPrototypes, pools)
	if _, err := c.fill(ctx); err != nil {
		return nil, fmt.Errorf("make nodes: %w", err)
	}
	if err := c.addCaptures(ctx); err != nil {
		return nil, err
	}
	var lists []time.Duration
	costs := make([]verbCost, len(verbs))
	for range verbTries {
		took, err := c.list(ctx, 0)
		if err != nil {
			return nil, fmt.Errorf("list the nodes: %w", err)
		}
		lists = append(lists, took)
		o.Say("one LIST took %s", short(took))
		for i, verb := range verbs {
			if err := c.runVerb(ctx, o, &costs[i], verb.run, verb.name); err != nil {
				return nil, err
			}
			o.Say("%s took %s", verb.name, short(costs[i].walls[len(costs[i].walls)-1]))
		}
	}
	r.add(fmt.Sprintf("%d nodes, %d Prototypes, %d policies: one LIST of the nodes", nodes, verbPrototypes, pools), short(median(lists)))
	for i, verb := range verbs {
		costs[i].report(&r, fmt.Sprintf("`kamino %s`, %d nodes", verb.name, nodes), median(lists), verb.limit)
	}
	return r, nil
}

func (v verbCost) report(r *Report, name string, list time.Duration, limit float64) {
	r.add(name, fmt.Sprintf("%s, CPU %s, %s, %d requests to the API server, %d to Azure",
		short(median(v.walls)), short(median(v.cpus)), mebibytes(v.peak), v.requests, v.azure))
	times := ratio(median(v.walls), list)
	r.limited(name+" against one LIST", fmt.Sprintf("%.2f", times), times > limit, atMost(fmt.Sprint(limit)))
	if v.page > 0 {
		r.limited(name+", its page", fmt.Sprintf("%d KiB", v.page>>10), v.page > maxPage, atMost(fmt.Sprintf("%d KiB", maxPage>>10)))
	}
}

// refusing runs a command that may refuse: doctor finds what a cluster of bare objects lacks.
func refusing(ctx context.Context, p child.Programs, binary string, args ...string) (CommandCost, error) {
	cost, err := measured(ctx, p, binary, args...)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 3 {
		err = nil
	}
	return cost, err
}

// firstPage runs the dashboard until its first page has arrived.
func firstPage(ctx context.Context, p child.Programs, binary string, args ...string) (CommandCost, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := p.Command(ctx, binary, append(args, "--address", "localhost:0")...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return CommandCost{}, err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return CommandCost{}, err
	}
	peak := child.WatchMemory(cmd.Process.Pid)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return CommandCost{}, err
	}
	_, address, _ := strings.Cut(strings.TrimSpace(line), "Dashboard: ")
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return CommandCost{}, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return CommandCost{}, err
	}
	page, err := io.ReadAll(answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err != nil || answer.StatusCode != http.StatusOK {
		return CommandCost{}, fmt.Errorf("the dashboard answers %s: %w", answer.Status, err)
	}
	c := CommandCost{Wall: time.Since(began), PeakMemory: peak(), Page: len(page)}
	cancel()
	_ = cmd.Wait() // killed
	c.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return c, nil
}

// runVerb runs a command once.
func (c *cluster) runVerb(ctx context.Context, o Options, into *verbCost, run measurement, args ...string) error {
	if err := c.letForget(ctx); err != nil {
		return err
	}
	before, err := c.requests(ctx)
	if err != nil {
		return err
	}
	azure := c.cloud.Stats().Requests
	cost, err := run(ctx, c.programs(o), o.Kamino, args...)
	if err != nil {
		return err
	}
	after, err := c.requests(ctx)
	if err != nil {
		return err
	}
	into.walls, into.cpus, into.peak = append(into.walls, cost.Wall), append(into.cpus, cost.CPU), max(into.peak, cost.PeakMemory)
	into.requests, into.azure, into.page = after-before, c.cloud.Stats().Requests-azure, cost.Page
	return nil
}

// asked are the resources that commands read. The API server also reads other resources.
var asked = []string{"configmaps", "daemonsets", "nodes", "nodeorders", "persistentvolumeclaims", "poddisruptionbudgets", "pods", "prototypepolicies",
	"prototypes", "secrets"}

// requests counts the reads that the API server has answered.
func (c *cluster) requests(ctx context.Context) (int, error) {
	body, err := c.kube.CoreV1().RESTClient().Get().AbsPath("/metrics").SetHeader("Accept", "text/plain").Stream(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = body.Close() }()
	return readsIn(body)
}

// readsIn sums the series of apiserver_request_total that commands cause.
func readsIn(metrics io.Reader) (count int, err error) {
	lines := bufio.NewScanner(metrics)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		series, value, found := strings.Cut(lines.Text(), "} ")
		if !found || !strings.HasPrefix(series, "apiserver_request_total{") {
			continue
		}
		verb, resource := labelIn(series, "verb"), labelIn(series, "resource")
		if !slices.Contains(asked, resource) || verb != "GET" && verb != "LIST" {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s}: %w", series, err)
		}
		count += int(n)
	}
	return count, lines.Err()
}

// labelIn is the value of a label of a series.
func labelIn(series, name string) string {
	_, rest, _ := strings.Cut(series, name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// addCaptures creates a policy for each pool, and finished Prototypes.
func (c *cluster) addCaptures(ctx context.Context) error {
	err := inParallel(c.pools, func(i int) error {
		spec := v1alpha1.PrototypePolicySpec{DryRun: true}
		spec.Pools.Names = []string{c.poolOf(i).ScaleSet()}
		_, err := c.create(ctx, "PrototypePolicy", "prototypepolicies",
			&v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: c.poolOf(i).Name}, Spec: spec})
		return err
	})
	if err != nil {
		return fmt.Errorf("make policies: %w", err)
	}
	if err := inParallel(verbPrototypes, func(i int) error { return c.addCapture(ctx, i) }); err != nil {
		return fmt.Errorf("make Prototypes: %w", err)
	}
	return nil
}

// addCapture creates the Prototype of a successful capture.
func (c *cluster) addCapture(ctx context.Context, i int) error {
	began := metav1.NewMicroTime(time.Now().AddDate(0, 0, -1-i/c.pools).UTC())
	node := c.node(i)
	p := &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s-%d", c.poolOf(i).Name, began.Format("2006.01.02"), i)}}
	p.Spec.Pool, p.Spec.PoolID = c.poolOf(i).ScaleSet(),
		strings.TrimPrefix(node.Spec.ProviderID[:strings.LastIndex(node.Spec.ProviderID, "/virtualMachines/")], "azure://")
	p.Spec.Version, p.Spec.Donor = began.Format("2006.01.02"), v1alpha1.Donor{NodeName: node.Name, ProviderID: node.Spec.ProviderID}
	made, err := c.create(ctx, "Prototype", "prototypes", p)
	if err != nil {
		return err
	}
	s := v1alpha1.PrototypeStatus{ObservedGeneration: 1, Phase: v1alpha1.PhaseSucceeded}
	for n, phase := range []v1alpha1.Phase{
		v1alpha1.PhasePreflight, v1alpha1.PhaseReserving, v1alpha1.PhaseDraining, v1alpha1.PhaseGeneralizing, v1alpha1.PhaseStopping,
		v1alpha1.PhaseSnapshotting, v1alpha1.PhaseStarting, v1alpha1.PhaseWaitingReady, v1alpha1.PhaseReleasing, v1alpha1.PhasePublishing,
		v1alpha1.PhasePromoting, v1alpha1.PhaseRetiring,
	} {
		end := metav1.NewMicroTime(began.Add(time.Duration(n+1) * time.Minute))
		s.Steps = append(s.Steps, v1alpha1.Step{Phase: phase, StartedAt: metav1.NewMicroTime(began.Add(time.Duration(n) * time.Minute)), FinishedAt: &end})
	}
	for _, kind := range []string{
		v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionDonorInService, v1alpha1.ConditionGeneralized,
		v1alpha1.ConditionPublished,
	} {
		s.Conditions = append(s.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: "Succeeded", LastTransitionTime: metav1.NewTime(began.Time),
			Message: "the recipe of the pool names the version, and the donor is back in service",
		})
	}
	s.Image = &v1alpha1.ImageStatus{ID: p.Spec.PoolID + "/versions/" + p.Spec.Version, ReplicationPercent: 100, Proof: strings.Repeat("0", 300)}
	text, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.Prototype{Status: s})
	if err != nil {
		return err
	}
	made.Object["status"] = text["status"]
	_, err = c.objects.Resource(v1alpha1.GroupVersion.WithResource("prototypes")).UpdateStatus(ctx, made, metav1.UpdateOptions{})
	return err
}

// create creates an object of a kind of Kamino.
func (c *cluster) create(ctx context.Context, kind, resource string, object any) (*unstructured.Unstructured, error) {
	text, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: text}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	return c.objects.Resource(v1alpha1.GroupVersion.WithResource(resource)).Create(ctx, u, metav1.CreateOptions{})
}
