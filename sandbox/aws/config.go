package aws

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"time"

	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/fleet"
)

// Config says which cloud is simulated. Dir, Account, Region and one User are required.
type Config struct {
	// Dir is where the state is kept, for this server's own use. It is made if it does not exist; its files hold
	// secrets and can be read by their owner only.
	Dir   string
	Clock clock.Clock
	// Fleet runs the machines; nil means machines that are nothing but a power state.
	Fleet fleet.Fleet

	// Account is the account's number, Region such as "eu-central-1".
	Account, Region string
	// Users may sign requests; they may do everything that no fault denies them.
	Users []User
	// Roles may be assumed by users, by instances, and by who has a token that a role trusts.
	Roles []Role
	// Subnets that instances can be in; empty means one in each of three zones.
	Subnets []Subnet
	// Images are there from the start, as of another owner.
	Images []Platform
	// Denied keys: a snapshot or volume with a KMS key of one of these IDs or ARNs cannot be used.
	DeniedKeys []string

	Latencies Latencies
	Throttle  Throttle
	// Lag is how long after its creation something of EC2's is not found and left out of lists.
	Lag time.Duration
	// ImageQuota is how many images the account may own; 0 means 50,000.
	ImageQuota int
	// PageSize is the most that a page holds, whatever the client asks for; 0 means AWS's own limits.
	PageSize int
	// SessionLifetime in real time of what STS and the metadata service give out; 0 means what was asked for, or an hour.
	SessionLifetime time.Duration

	// Registered is told, before an image of the account's is available, of its name and of the disk that its machines begin
	// with; nil tells nobody. It must not call the server.
	Registered func(name string, root fleet.DiskID) error

	// Certificate is what Serve shows. Not needed by those who serve Handler themselves.
	Certificate tls.Certificate
	// Log gets one line per failed work; nil means none.
	Log *slog.Logger
}

// User is a user with a key of its own.
type User struct {
	Name, KeyID, Secret string
}

// Role is what may be assumed.
type Role struct {
	Name string
	// Federated are the tokens of others that the role trusts.
	Federated []Federation
}

// Subnet is where instances are.
type Subnet struct {
	ID, Zone string
}

// Platform is an image of another owner.
type Platform struct {
	ID, Name, Owner string
	// Content is what the fleet copies a root disk from.
	Content fleet.DiskID
	// Architecture defaults to x86_64, RootDevice to /dev/xvda, Details to Linux/UNIX, BootMode to uefi-preferred, Size to 20 GiB.
	Architecture, RootDevice, Details, BootMode string
	Size                                        int64
	// Tpm is the version of its TPM support, such as "v2.0"; Codes are its product codes.
	Tpm   string
	Codes []string
}

// Latencies are simulated durations of what takes time on AWS; 0 means the default, below 0 none. They are what people
// commonly see.
type Latencies struct {
	Launch    time.Duration // from RunInstances to running: 15 s
	Start     time.Duration // 15 s
	Stop      time.Duration // the guest's own shutdown included: 40 s
	Terminate time.Duration // 30 s
	Forget    time.Duration // how long what was terminated or deregistered shows: 1 h
	Snapshot  time.Duration // 5 min
	Image     time.Duration // from RegisterImage to available: 30 s
	Volume    time.Duration // a volume from a snapshot: 5 s
	Root      time.Duration // replacing a root volume: 90 s
	Standby   time.Duration // entering, leaving, attaching, detaching: 10 s
	Health    time.Duration // until a group sees what has become of an instance: 60 s
	Retry     time.Duration // until a group tries again to launch: 60 s
	Warmup    time.Duration // of an instance in an instance refresh: 120 s
}

func (l Latencies) withDefaults() Latencies {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&l.Launch, 15 * time.Second}, {&l.Start, 15 * time.Second}, {&l.Stop, 40 * time.Second}, {&l.Terminate, 30 * time.Second},
		{&l.Forget, time.Hour}, {&l.Snapshot, 5 * time.Minute}, {&l.Image, 30 * time.Second}, {&l.Volume, 5 * time.Second},
		{&l.Root, 90 * time.Second}, {&l.Standby, 10 * time.Second}, {&l.Health, time.Minute}, {&l.Retry, time.Minute},
		{&l.Warmup, 2 * time.Minute},
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

// Throttle is the token buckets of one account: EC2 has one for calls that look and one for calls that change,
// Auto Scaling one for both. 0 means the default; rates are per simulated second.
type Throttle struct {
	ReadBurst, ReadRate   float64 // 100, 20
	WriteBurst, WriteRate float64 // 50, 5
	GroupBurst, GroupRate float64 // 100, 10
}

func (t Throttle) withDefaults() Throttle {
	for _, d := range []struct {
		field *float64
		value float64
	}{{&t.ReadBurst, 100}, {&t.ReadRate, 20}, {&t.WriteBurst, 50}, {&t.WriteRate, 5}, {&t.GroupBurst, 100}, {&t.GroupRate, 10}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return t
}

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Dir == "":
		return c, errors.New("aws simulator: Dir is required")
	case c.Account == "" || c.Region == "":
		return c, errors.New("aws simulator: Account and Region are required")
	case len(c.Users) == 0:
		return c, errors.New("aws simulator: one of Users is required")
	}
	if c.Fleet == nil {
		c.Fleet = &bare{off: map[string]bool{}}
	}
	if len(c.Subnets) == 0 {
		for _, zone := range []string{"a", "b", "c"} {
			c.Subnets = append(c.Subnets, Subnet{ID: "subnet-0000000000000000" + zone, Zone: c.Region + zone})
		}
	}
	c.Latencies, c.Throttle = c.Latencies.withDefaults(), c.Throttle.withDefaults()
	if c.ImageQuota <= 0 {
		c.ImageQuota = 50000
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}
