package conformance

import (
	"crypto/rand"
	"encoding/json"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	provider "github.com/kamino-dev/kamino/internal/cloud/azure"
	simulator "github.com/kamino-dev/kamino/sandbox/azure"
	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/fleet"
)

const (
	tenant       = "99999999-0000-0000-0000-000000000001"
	subscription = "11111111-2222-3333-4444-555555555555"
	client       = "c0ffee00-0000-0000-0000-000000000001"
	group        = "My-Group"
	location     = "westus2"
	poolName     = "k8s-pool1-24816321-vmss"
	version      = "2026.11.21"
)

// pace makes half an hour of replication a tenth of a second.
var pace = clock.Clock{Scale: 18000}

// cloudEnv is a simulated cloud with one pool, and the provider.
type cloudEnv struct {
	t      *testing.T
	cloud  *simulator.Server
	fleet  *fleet.Memory
	web    *httptest.Server
	secret string
	// audience of the tokens. Each world has its own, because the identity library caches tokens of managed
	// identities per process and audience.
	audience string
	p        cloud.Provider
	pool     cloud.PoolID
	// a and b are the pool's first two instances.
	a, b cloud.InstanceID
}

// options change the cloud or the pool before the start.
type options struct {
	config func(*simulator.Config)
	pool   func(*simulator.PoolSpec)
	// wire replaces a socket, if set.
	wire *wire
}

func newCloudEnv(t *testing.T, change options) *cloudEnv {
	t.Helper()
	w := &cloudEnv{t: t, fleet: fleet.NewMemory(), secret: rand.Text(), audience: "https://" + rand.Text() + ".example/"}
	config := simulator.Config{
		Dir: t.TempDir(), Clock: pace, Fleet: w.fleet,
		SubscriptionID: subscription, TenantID: tenant, ResourceGroup: group, Location: location,
		ClientID: client, ClientSecret: w.secret, ZRS: true,
		// The suite writes one version or instance repeatedly without delay.
		Latencies: simulator.Latencies{Snapshot: 3 * time.Minute, VersionUpdate: -1, Instance: -1, Model: -1, Replicate: time.Minute},
		Throttle:  simulator.Throttle{ReadBurst: 1e6, WriteBurst: 1e6},
	}
	if change.config != nil {
		change.config(&config)
	}
	var err error
	if w.cloud, err = simulator.New(config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.cloud.Close)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last requests:\n%s", lastOf(w.cloud.Requests()))
		}
	})
	pool := simulator.PoolSpec{Name: poolName, Nodes: 2, MaxNodes: 200, Generation: "V2"}
	if change.pool != nil {
		change.pool(&pool)
	}
	if err := w.cloud.CreatePool(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	w.web = httptest.NewUnstartedServer(w.cloud.Handler())
	w.web.Config.ErrorLog = log.New(io.Discard, "", 0) // some tests break connections off
	if change.wire != nil {
		w.must(w.web.Listener.Close())
		w.web.Listener = change.wire
	}
	w.web.StartTLS()
	t.Cleanup(w.web.Close)
	if change.wire != nil {
		w.web.Client().Transport = change.wire.transport(w.web.Certificate())
	}
	w.p = w.connect(w.environment(w.secret))
	instances := w.list()
	w.a, w.b = instances[0], instances[1]
	w.pool = w.poolOf(w.a)
	return w
}

// poolOf is the pool of an instance.
func (w *cloudEnv) poolOf(id cloud.InstanceID) cloud.PoolID {
	w.t.Helper()
	found, err := w.p.PoolsOf(w.t.Context(), []cloud.NodeValues{{ProviderID: id}})
	if err != nil || found[0].Pool == "" {
		w.t.Fatalf("%s is of pool %+v: %v", id, found, err)
	}
	return found[0].Pool
}

// environment returns the variables of a shell that sourced the sandbox's env file.
func (w *cloudEnv) environment(secret string) map[string]string {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "azurestackcloud.json")
	w.write(path, map[string]string{
		"name":                    "AzureStackCloud",
		"resourceManagerEndpoint": w.web.URL + "/",
		"activeDirectoryEndpoint": w.web.URL + "/",
		"tokenAudience":           w.audience,
	})
	return map[string]string{
		"AZURE_ENVIRONMENT": "AzureStackCloud", "AZURE_ENVIRONMENT_FILEPATH": path,
		"AZURE_TENANT_ID": tenant, "AZURE_CLIENT_ID": client, "AZURE_CLIENT_SECRET": secret,
	}
}

func (w *cloudEnv) write(path string, content any) {
	w.t.Helper()
	data, err := json.Marshal(content)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// connect makes a provider from an environment, as a new process would.
func (w *cloudEnv) connect(env map[string]string) cloud.Provider {
	w.t.Helper()
	return w.load(provider.LoadOptions{Getenv: func(name string) string { return env[name] }})
}

func (w *cloudEnv) load(options provider.LoadOptions) cloud.Provider {
	w.t.Helper()
	p, err := provider.New(w.t.Context(), w.configured(options))
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *cloudEnv) configured(options provider.LoadOptions) provider.Config {
	w.t.Helper()
	options.Transport = w.web.Client()
	config, err := provider.LoadConfig(options)
	if err != nil {
		w.t.Fatal(err)
	}
	return config
}

// list returns the instances of the pool, the oldest first.
func (w *cloudEnv) list() []cloud.InstanceID {
	specs := map[string]cloud.InstanceID{}
	for _, spec := range w.cloud.Specs() {
		if spec.Pool != poolName && strings.HasPrefix(spec.Pool, "kamino-") {
			continue // a trial's, or a workshop's
		}
		specs[spec.ComputerName] = cloud.InstanceID(spec.ProviderID)
	}
	var out []cloud.InstanceID
	for _, name := range slices.Sorted(maps.Keys(specs)) {
		out = append(out, specs[name])
	}
	return out
}

// advance lets half a minute of the simulated cloud pass.
func advance(testing.TB) { time.Sleep(pace.Real(30 * time.Second)) }

// until looks until done, and ends the test after very many looks.
func (w *cloudEnv) until(what string, done func() bool) {
	w.t.Helper()
	for range 2000 {
		if done() {
			return
		}
		advance(w.t)
	}
	w.t.Fatalf("never %s", what)
}

func (w *cloudEnv) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *cloudEnv) fault(f fault.Fault) {
	w.t.Helper()
	_, err := w.cloud.AddFault(f)
	w.must(err)
}

// wantError requires an error of the kind that contains each text, in one line and without the secret.
func (w *cloudEnv) wantError(err error, kind cloud.Kind, says ...string) {
	w.t.Helper()
	if cloud.KindOf(err) != kind {
		w.t.Fatalf("got %v, want an error of kind %s", err, kind)
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			w.t.Errorf("%q does not say %q", err, text)
		}
	}
	if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), w.secret) {
		w.t.Errorf("the error is not one line without the secret: %q", err)
	}
}

// snapshot stops instance a and copies its disk.
func (w *cloudEnv) snapshot() cloud.Snapshot {
	w.t.Helper()
	w.until("stopped", func() bool {
		power, err := w.p.EnsureStopped(w.t.Context(), w.a)
		w.must(err)
		return power == cloud.PowerStopped
	})
	var have cloud.Snapshot
	w.until("copied", func() bool {
		var err error
		have, err = w.p.EnsureSnapshot(w.t.Context(), w.snapshotSpec())
		w.must(err)
		return have.State == cloud.Complete
	})
	return have
}

func (w *cloudEnv) snapshotSpec() cloud.SnapshotSpec {
	return cloud.SnapshotSpec{Name: "pool1-" + version, Instance: w.a, Tags: map[string]string{cloud.TagBuiltFrom: "node-a"}}
}

func (w *cloudEnv) ref() cloud.ImageRef { return cloud.ImageRef{Pool: w.pool, Version: version} }

// publish repeats the engine's passes until the version is complete: a read, and a write if the version is absent.
func (w *cloudEnv) publish(from cloud.Snapshot) cloud.Image { return w.publishAs(w.ref(), from) }

func (w *cloudEnv) publishAs(ref cloud.ImageRef, from cloud.Snapshot) cloud.Image {
	w.t.Helper()
	var have cloud.Image
	w.until("published", func() bool {
		var err error
		have, err = w.p.Image(w.t.Context(), ref)
		w.must(err)
		if have.State == cloud.Absent {
			_, err := w.p.EnsureImage(w.t.Context(), cloud.ImageSpec{ImageRef: ref, SnapshotID: from.ID, Tags: map[string]string{cloud.TagBuiltFrom: "node-a"}})
			w.must(err)
		}
		return have.State == cloud.Complete || have.State == cloud.Failed
	})
	return have
}

// document returns a resource from the cloud's state.
func (w *cloudEnv) document(id string) map[string]any {
	w.t.Helper()
	answer := w.request(http.MethodGet, id, nil)
	defer answer.Body.Close()
	var out map[string]any
	w.must(json.NewDecoder(answer.Body).Decode(&out))
	return out
}
