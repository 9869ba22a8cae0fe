package azure

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/requestlog"
)

// Config says which cloud is simulated. Dir, Fleet, SubscriptionID, TenantID, ResourceGroup, Location,
// ClientID and ClientSecret are required.
type Config struct {
	// Dir holds the state of this server. New creates a missing directory. The files hold secrets, so only the owner
	// can read them.
	Dir   string
	Clock clock.Clock
	// Stepped: operations take time of the Clock's calendar, which skips shorten.
	Stepped bool
	Fleet   fleet.Fleet

	SubscriptionID string
	TenantID       string
	// ResourceGroup exists from the start; a PUT creates more groups.
	ResourceGroup string
	Location      string
	// ClientID and ClientSecret of the service principal with all rights.
	ClientID     string
	ClientSecret string
	// Roles have the actions of further principals, by their client IDs. Such a service principal has the same secret.
	Roles map[string][]string

	// ZRS: the region has zone-redundant storage.
	ZRS bool
	// ZRSRefusedAtOnce lets a region without zone-redundant storage refuse the request. By default the image version
	// is accepted and fails, as with most API versions.
	ZRSRefusedAtOnce bool

	Latencies Latencies
	Throttle  Throttle
	// Quota overrides limits by their names in the usages list, such as "cores".
	Quota map[string]int64
	// PageSize of every list; 0 means 250.
	PageSize int

	// TokenLifetime in real time; 0 means an hour.
	TokenLifetime time.Duration
	// IdentityHeader is the secret that a client of the identity endpoint shows; empty closes the endpoint.
	IdentityHeader string
	// SystemIdentity is the client ID of the system-assigned identity; empty means there is none.
	SystemIdentity string
	UserIdentities []Identity
	// Federated are foreign tokens that the service principal accepts in place of the secret.
	Federated []Federation

	// Record receives every request; nil drops them.
	Record *requestlog.Record
	// Certificate for Serve. Not needed for Handler.
	Certificate tls.Certificate
	// Log gets a line for each failed operation; nil means no log.
	Log *slog.Logger
}

// Identity is a user-assigned managed identity. A client may use any of its names.
type Identity struct {
	ClientID   string `json:"clientID"`
	ResourceID string `json:"resourceID"`
	ObjectID   string `json:"objectID"`
}

// Latencies are simulated durations on Azure; 0 means the default, below 0 none. The authors of the Python original
// measured Stop, Snapshot and Version; other defaults are common values.
type Latencies struct {
	Gallery       time.Duration // create or change a gallery or an image definition: 5 s
	Version       time.Duration // make and replicate an image version: 30 min
	Replicate     time.Duration // from a made version until its region has it: none, as usual
	VersionUpdate time.Duration // change tags and the like of a version: 5 s
	VersionDelete time.Duration // 60 s
	Snapshot      time.Duration // 6 s
	Delete        time.Duration // delete a snapshot, disk, gallery or definition: 3 s
	Model         time.Duration // change a scale set's model: 10 s
	Create        time.Duration // create an instance, until its power is on: 40 s
	Terminate     time.Duration // delete an instance: 30 s
	Start         time.Duration // 45 s; the power is on after a third
	Stop          time.Duration // 183 s, the guest's own shutdown included
	StopIdle      time.Duration // power off a machine whose guest is already off: 115 s, as in the original's published log; at most Stop
	Deallocate    time.Duration // 240 s
	Restart       time.Duration // 60 s
	Reimage       time.Duration // 120 s
	Instance      time.Duration // change an instance, such as its protection: 5 s
	Attach        time.Duration // attach or detach a data disk: 10 s
}

// Defaulted sets the defaults of zero fields.
func (l Latencies) Defaulted() Latencies {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&l.Gallery, 5 * time.Second}, {&l.Version, 30 * time.Minute}, {&l.VersionUpdate, 5 * time.Second},
		{&l.VersionDelete, time.Minute}, {&l.Snapshot, 6 * time.Second}, {&l.Delete, 3 * time.Second},
		{&l.Model, 10 * time.Second}, {&l.Create, 40 * time.Second}, {&l.Terminate, 30 * time.Second},
		{&l.Start, 45 * time.Second}, {&l.Stop, 183 * time.Second}, {&l.StopIdle, 115 * time.Second}, {&l.Deallocate, 240 * time.Second},
		{&l.Restart, time.Minute}, {&l.Reimage, 2 * time.Minute}, {&l.Instance, 5 * time.Second}, {&l.Attach, 10 * time.Second},
	} {
		switch {
		case *d.field == 0:
			*d.field = d.value
		case *d.field < 0:
			*d.field = 0
		}
	}
	return l
}

// Throttle is the token bucket of ARM, one per principal; 0 means ARM's own value. Rates are per simulated
// second.
type Throttle struct {
	ReadBurst  float64 // 250
	ReadRate   float64 // 25
	WriteBurst float64 // 200
	WriteRate  float64 // 10
}

func (t Throttle) withDefaults() Throttle {
	for _, d := range []struct {
		field *float64
		value float64
	}{{&t.ReadBurst, 250}, {&t.ReadRate, 25}, {&t.WriteBurst, 200}, {&t.WriteRate, 10}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return t
}

func (c Config) withDefaults() (Config, error) {
	for _, required := range []struct{ name, value string }{
		{"Dir", c.Dir}, {"SubscriptionID", c.SubscriptionID}, {"TenantID", c.TenantID},
		{"ResourceGroup", c.ResourceGroup}, {"Location", c.Location}, {"ClientID", c.ClientID},
		{"ClientSecret", c.ClientSecret},
	} {
		if required.value == "" {
			return c, fmt.Errorf("azure simulator: %s is required", required.name)
		}
	}
	if c.Fleet == nil {
		return c, errors.New("azure simulator: Fleet is required")
	}
	c.Latencies, c.Throttle = c.Latencies.Defaulted(), c.Throttle.withDefaults()
	if c.PageSize <= 0 {
		c.PageSize = 250
	}
	if c.TokenLifetime <= 0 {
		c.TokenLifetime = time.Hour
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}
