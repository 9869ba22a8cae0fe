package world

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	azcloud "github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/sandbox/control"
	"github.com/kamino-dev/kamino/sandbox/pool"
)

// pools that the sandbox has.
func (w *World) pools() []pool.Spec {
	w.poolsMu.Lock()
	defer w.poolsMu.Unlock()
	return slices.Clone(w.site.Pools)
}

// makePools makes the pools that are missing.
func (w *World) makePools(ctx context.Context) error {
	for _, spec := range w.pools() {
		if err := w.makePool(ctx, spec); err != nil {
			return err
		}
		w.say("pool %s: scale set %s, %d nodes to begin with, %s, %s profile", spec.Name, spec.ScaleSet(), spec.Nodes, spec.Generation, spec.Profile)
	}
	return nil
}

// makePool has the cloud make the pool's machines at once, so that a start does not cost what a scale-out
// costs; they boot and bootstrap like all others. A pool that is there is left.
func (w *World) makePool(ctx context.Context, spec pool.Spec) error {
	customData, err := w.customData(ctx, spec)
	if err != nil {
		return fmt.Errorf("pool %s: %w", spec.Name, err)
	}
	if err := w.cloud.CreatePool(ctx, spec.Azure(customData)); err != nil {
		return fmt.Errorf("pool %s: %w", spec.Name, err)
	}
	return nil
}

// AddPool makes one more pool in a running sandbox and returns when its nodes are Ready. It outlives a
// restart like the others.
func (w *World) AddPool(ctx context.Context, spec pool.Spec) error {
	spec = spec.Complete()
	if err := spec.Check(); err != nil {
		return err
	}
	if _, err := w.poolNamed(spec.Name); err == nil {
		return fmt.Errorf("there is a pool %s already", spec.Name)
	}
	w.poolsMu.Lock()
	w.site.Pools = append(w.site.Pools, spec)
	err := w.site.Save()
	w.poolsMu.Unlock()
	if err != nil {
		return err
	}
	if err := w.makePool(ctx, spec); err != nil {
		return err
	}
	return w.awaitNodesOf(ctx, spec.Name, spec.Nodes)
}

// scaleSetID is the resource ID of a pool's scale set.
func (w *World) scaleSetID(spec pool.Spec) string {
	return fmt.Sprintf("/subscriptions/%s/resourceGroups/%s/providers/Microsoft.Compute/virtualMachineScaleSets/%s",
		w.site.SubscriptionID, w.site.ResourceGroup, spec.ScaleSet())
}

// poolNamed finds a pool by its own name or its scale set's.
func (w *World) poolNamed(name string) (pool.Spec, error) {
	var names []string
	for _, spec := range w.pools() {
		if spec.Is(name) {
			return spec, nil
		}
		names = append(names, spec.Name)
	}
	return pool.Spec{}, fmt.Errorf("there is no pool %s, only %s", name, strings.Join(names, ", "))
}

// scaleSets is a client of the simulated Azure, made as an autoscaler makes its own.
func (w *World) scaleSets() (*armcompute.VirtualMachineScaleSetsClient, error) {
	credential, options, err := w.principal()
	if err != nil {
		return nil, err
	}
	return armcompute.NewVirtualMachineScaleSetsClient(w.site.SubscriptionID, credential, options)
}

// principal is the service principal that may do everything, for clients of the real SDK.
func (w *World) principal() (azcore.TokenCredential, *arm.ClientOptions, error) {
	client, err := w.servers.Client()
	if err != nil {
		return nil, nil, err
	}
	options := azcore.ClientOptions{
		Cloud: azcloud.Configuration{
			ActiveDirectoryAuthorityHost: w.servers.Azure + "/",
			Services: map[azcloud.ServiceName]azcloud.ServiceConfiguration{
				azcloud.ResourceManager: {Endpoint: w.servers.Azure, Audience: w.servers.Audience()},
			},
		},
		Transport: client,
		Telemetry: policy.TelemetryOptions{ApplicationID: "sandbox-autoscaler"},
	}
	credential, err := azidentity.NewClientSecretCredential(w.site.TenantID, w.site.ClientID, w.site.ClientSecret,
		&azidentity.ClientSecretCredentialOptions{ClientOptions: options, DisableInstanceDiscovery: true})
	return credential, &arm.ClientOptions{ClientOptions: options}, err
}

// Pools implements control.World.
func (w *World) Pools(ctx context.Context) ([]control.Pool, error) {
	client, err := w.scaleSets()
	if err != nil {
		return nil, err
	}
	var out []control.Pool
	for _, spec := range w.pools() {
		got, err := client.Get(ctx, w.site.ResourceGroup, spec.ScaleSet(), nil)
		var answer *azcore.ResponseError
		if errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound {
			continue // somebody makes the pool at this moment
		}
		if err != nil {
			return nil, fmt.Errorf("pool %s: %w", spec.Name, err)
		}
		p := control.Pool{Spec: spec, ScaleSet: spec.ScaleSet(), ID: w.scaleSetID(spec), Image: imageOf(got.VirtualMachineScaleSet), Extensions: extensionsOf(got.VirtualMachineScaleSet)}
		if got.SKU != nil && got.SKU.Capacity != nil {
			p.Capacity = *got.SKU.Capacity
		}
		for _, node := range w.nodes.of(p.ID) {
			if w.nodes.ready(node) {
				p.Ready++
			}
		}
		out = append(out, p)
	}
	return out, nil
}

func imageOf(set armcompute.VirtualMachineScaleSet) string {
	if set.Properties == nil || set.Properties.VirtualMachineProfile == nil || set.Properties.VirtualMachineProfile.StorageProfile == nil {
		return ""
	}
	ref := set.Properties.VirtualMachineProfile.StorageProfile.ImageReference
	if ref == nil {
		return ""
	}
	if ref.ID != nil {
		return *ref.ID
	}
	var parts []string
	for _, part := range []*string{ref.Publisher, ref.Offer, ref.SKU, ref.Version} {
		if part != nil {
			parts = append(parts, *part)
		}
	}
	return strings.Join(parts, ":")
}

func extensionsOf(set armcompute.VirtualMachineScaleSet) []string {
	names := []string{}
	if set.Properties == nil || set.Properties.VirtualMachineProfile == nil || set.Properties.VirtualMachineProfile.ExtensionProfile == nil {
		return names
	}
	for _, e := range set.Properties.VirtualMachineProfile.ExtensionProfile.Extensions {
		if e != nil && e.Name != nil {
			names = append(names, *e.Name)
		}
	}
	return names
}

// Scale implements control.World. It asks Resource Manager, as an autoscaler would, and watches the nodes.
func (w *World) Scale(ctx context.Context, name string, s control.Scale, tell func(control.Event)) ([]control.Join, error) {
	spec, err := w.poolNamed(name)
	if err != nil {
		return nil, err
	}
	client, err := w.scaleSets()
	if err != nil {
		return nil, err
	}
	got, err := client.Get(ctx, w.site.ResourceGroup, spec.ScaleSet(), nil)
	if err != nil {
		return nil, err
	}
	order := growth{world: w, spec: spec, size: s.Nodes, tell: tell, before: map[string]bool{}, joins: map[string]*control.Join{}}
	for _, node := range w.nodes.of(w.scaleSetID(spec)) {
		order.before[node.Name] = true
	}
	order.began = time.Now()
	poller, err := client.BeginUpdate(ctx, w.site.ResourceGroup, spec.ScaleSet(), armcompute.VirtualMachineScaleSetUpdate{
		SKU: &armcompute.SKU{Name: got.SKU.Name, Tier: got.SKU.Tier, Capacity: to.Ptr(s.Nodes)},
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("resize pool %s: %w", spec.Name, brief(err))
	}
	order.event(spec.Name, "size %d asked for, was %d", s.Nodes, *got.SKU.Capacity)
	if !s.Wait {
		return nil, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, w.patience(), errPatience)
	defer cancel()
	failed, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		// A failure of the cloud's own operation ends the wait; its success does not.
		if _, err := poller.PollUntilDone(failed, nil); err != nil && failed.Err() == nil {
			stop(fmt.Errorf("the cloud gave up: %w", brief(err)))
		}
	}()
	err = w.nodes.until(failed, order.look)
	return order.inOrder(), err
}

// growth watches a pool on its way to a size.
type growth struct {
	world  *World
	spec   pool.Spec
	size   int64
	tell   func(control.Event)
	began  time.Time
	before map[string]bool
	joins  map[string]*control.Join
}

func (g *growth) event(subject, format string, args ...any) {
	g.tell(control.Event{Subject: subject, Text: fmt.Sprintf(format, args...), Seconds: time.Since(g.began).Seconds()})
}

// look notes what is new and tells whether the pool has its size.
func (g *growth) look() (bool, string) {
	nodes := g.world.nodes.of(g.world.scaleSetID(g.spec))
	ready := 0
	for _, node := range nodes {
		if g.world.nodes.ready(node) {
			ready++
		}
		g.note(node)
	}
	state := fmt.Sprintf("pool %s has %d nodes, %d of them Ready, where %d are wanted", g.spec.Name, len(nodes), ready, g.size)
	if collisions := g.world.fleet.Collisions(); len(collisions) > 0 {
		state += "; " + collisions[len(collisions)-1].String()
	}
	// Nodes that were there before and are not Ready are nobody's business here.
	joined := 0
	for _, j := range g.joins {
		if j.Ready > 0 {
			joined++
		}
	}
	return int64(len(nodes)) == g.size && joined == len(g.joins), state
}

func (g *growth) note(node *corev1.Node) {
	if g.before[node.Name] {
		return
	}
	now := time.Since(g.began).Seconds()
	join := g.joins[node.Name]
	if join == nil {
		join = &control.Join{Node: node.Name, Registered: now}
		g.joins[node.Name] = join
	}
	if join.Ready == 0 && g.world.nodes.ready(node) {
		join.Ready = now
		g.event(node.Name, "Ready")
	}
}

func (g *growth) inOrder() []control.Join {
	out := make([]control.Join, 0, len(g.joins))
	for _, j := range g.joins {
		out = append(out, *j)
	}
	slices.SortFunc(out, func(a, b control.Join) int { return strings.Compare(a.Node, b.Node) })
	return out
}

// brief leaves the cloud's own sentence of an error that the SDK prints on ten lines.
func brief(err error) error {
	var response *azcore.ResponseError
	if !errors.As(err, &response) {
		return err
	}
	var body struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if response.RawResponse != nil && response.RawResponse.Body != nil {
		if json.NewDecoder(response.RawResponse.Body).Decode(&body) == nil && body.Error.Message != "" {
			return fmt.Errorf("%s: %s", body.Error.Code, body.Error.Message)
		}
	}
	return fmt.Errorf("%s (status %d)", response.ErrorCode, response.StatusCode)
}
