package azure

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	azcloud "github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	simulator "github.com/kamino-dev/kamino/sandbox/azure"
	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/realcloud"
)

// Facts of the simulated subscription.
const (
	simulatedSubscription = "11111111-2222-3333-4444-555555555555"
	simulatedTenant       = "99999999-8888-7777-6666-555555555555"
	simulatedClient       = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
	simulatedRegion       = "westus2"
)

// simulate starts a simulated Azure in this process, whose time only waits move, for a principal with a role; empty for all rights.
func simulate(role string) (*realcloud.Account, func(), error) {
	var may struct{ Actions []string }
	if role != "" {
		if err := json.Unmarshal([]byte(role), &may); err != nil {
			return nil, nil, err
		}
	}
	dir, err := os.MkdirTemp("", "kamino-verify-")
	if err != nil {
		return nil, nil, err
	}
	calendar := &clock.Calendar{}
	now := clock.Clock{Calendar: calendar}
	guests, secret := &guests{Memory: fleet.NewMemory(), now: now.Now, texts: map[string]string{}, stopped: map[fleet.DiskID]time.Time{}}, rand.Text()
	config := simulator.Config{Dir: dir, Clock: now, Stepped: true, Fleet: guests, SubscriptionID: simulatedSubscription, TenantID: simulatedTenant,
		ResourceGroup: "someone", Location: simulatedRegion, ClientID: simulatedClient, ClientSecret: secret, ZRS: true,
		Throttle: simulator.Throttle{ReadBurst: 1e6, WriteBurst: 1e6}}
	if role != "" {
		config.Roles = map[string][]string{simulatedClient: may.Actions}
	}
	server, err := simulator.New(config)
	if err != nil {
		_ = os.RemoveAll(dir) // the first error counts
		return nil, nil, err
	}
	// Dates are simulated: a copy is judged by them.
	handler := server.Handler()
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", now.Now().Format(http.TimeFormat))
		handler.ServeHTTP(w, r)
	}))
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.StartTLS()
	end := func() {
		web.Close()
		server.Close()
		_ = os.RemoveAll(dir) // in the directory for temporary files
	}
	to := azcloud.Configuration{ActiveDirectoryAuthorityHost: web.URL + "/", Services: map[azcloud.ServiceName]azcloud.ServiceConfiguration{
		azcloud.ResourceManager: {Endpoint: web.URL, Audience: web.URL}}}
	credential, err := azidentity.NewClientSecretCredential(simulatedTenant, simulatedClient, secret, &azidentity.ClientSecretCredentialOptions{
		ClientOptions: policy.ClientOptions{Cloud: to, Transport: web.Client()}, DisableInstanceDiscovery: true})
	if err != nil {
		end()
		return nil, nil, err
	}
	a := accountOf(target{to, credential, simulatedSubscription, web.Client()}, simulatedRegion)
	a.Simulated, a.Now = true, now.Now
	a.Wait = func(ctx context.Context, d time.Duration) error {
		calendar.Skip(d)
		// The simulated cloud works on its own, in real time.
		time.Sleep(4 * time.Millisecond)
		return ctx.Err()
	}
	a.Left = func() []string { return server.Left("someone") }
	return a, end, nil
}

// guests are the machines of the simulated Azure. They do what the program of guest.yaml does.
type guests struct {
	*fleet.Memory
	now func() time.Time

	mu sync.Mutex
	// texts are the consoles, and stopped the ends of machines that are off, by their disks.
	texts   map[string]string
	stopped map[fleet.DiskID]time.Time
}

// program is the file of a disk with the machines' program.
const program = "kamino-verify"

func (g *guests) say(id, format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := strings.ToLower(id)
	g.texts[key] += "\n" + mark + fmt.Sprintf(format, args...) + "\n"
	g.SetConsole(key, g.texts[key])
}

// boot is the begin of the program, on machines that have it.
func (g *guests) boot(spec fleet.Spec) {
	data := "no"
	if strings.Contains(string(spec.CustomData), program) {
		data = "yes"
		g.WriteFile(spec.Disk, program, "installed")
	}
	g.mu.Lock()
	delete(g.stopped, spec.Disk)
	g.mu.Unlock()
	if g.File(spec.Disk, program) != "" {
		g.say(spec.ID, "boot uuid=%s address=10.213.0.%d data=%s", spec.VMID, 4+len(spec.ID)%200, data)
	}
}

// Launch implements fleet.Fleet.
func (g *guests) Launch(ctx context.Context, spec fleet.Spec) error {
	err := g.Memory.Launch(ctx, spec)
	if err == nil {
		g.boot(spec)
	}
	return err
}

// PowerOn implements fleet.Fleet.
func (g *guests) PowerOn(ctx context.Context, id string) error {
	was := g.Power(id)
	err := g.Memory.PowerOn(ctx, id)
	if err == nil && was != fleet.On {
		g.boot(g.Machine(id).Spec)
	}
	return err
}

// PowerOff implements fleet.Fleet.
func (g *guests) PowerOff(ctx context.Context, id string, hard bool) error {
	g.mu.Lock()
	g.stopped[g.Machine(id).Spec.Disk] = g.now()
	g.mu.Unlock()
	return g.Memory.PowerOff(ctx, id, hard)
}

// CopyDisk implements fleet.Fleet. The copy of a disk with the program has the time until which the machine wrote.
func (g *guests) CopyDisk(ctx context.Context, dst, src fleet.DiskID) error {
	if err := g.Memory.CopyDisk(ctx, dst, src); err != nil || g.File(dst, program) == "" || !strings.Contains(string(src), "osdisk") {
		return err
	}
	g.mu.Lock()
	until, off := g.stopped[src]
	g.mu.Unlock()
	if !off {
		until = g.now()
	}
	g.WriteFile(dst, "flushed", strconv.FormatInt(until.UnixMilli(), 10))
	return nil
}

// Attach implements fleet.Fleet.
func (g *guests) Attach(ctx context.Context, id string, disk fleet.DiskID, serial string) error {
	err := g.Memory.Attach(ctx, id, disk, serial)
	if err != nil || g.Power(id) != fleet.On {
		return err
	}
	switch serial {
	case "lun-" + strconv.Itoa(lunOff):
		g.say(id, "off")
		return g.PowerOff(ctx, id, true)
	case "lun-" + strconv.Itoa(lunRead):
		at := g.File(disk, "flushed")
		g.say(id, "copy lun=0 where=scsi flushed=%s written=%s", at, at)
	}
	return nil
}
