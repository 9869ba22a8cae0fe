package aws

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/fleet"
	"github.com/kamino-dev/kamino/sandbox/requestlog"
)

// Config describes the simulated cloud. Dir, Account, Region and at least one User are required.
type Config struct {
	// Dir holds the state of this server. New creates a missing directory. The files hold secrets, so only the owner
	// can read them.
	Dir   string
	Clock clock.Clock
	// Fleet runs the machines.
	Fleet fleet.Fleet

	// Account is the account ID, Region a name such as "eu-central-1".
	Account, Region string
	// Users may sign requests, and may do everything that no fault denies.
	Users []User
	// Roles for users, for instances, and for holders of trusted tokens.
	Roles []Role
	// Subnets for instances; empty means one in each of three zones.
	Subnets []Subnet
	// Parameters are parameters of Systems Manager by name, such as the image of an operating system.
	Parameters map[string]string
	// Images are there from the start, as of another owner.
	Images []Platform
	// Denied keys: snapshots or volumes with a KMS key of these IDs or ARNs cannot be used.
	DeniedKeys []string

	Latencies Latencies
	Throttle  Throttle
	// Lag is how long after its creation something of EC2's is not found and left out of lists.
	Lag time.Duration
	// ImageQuota is how many images the account may own; 0 means 50,000.
	ImageQuota int
	// PageSize is the maximum size of a page; 0 means AWS's own limits.
	PageSize int
	// SessionLifetime is the real lifetime of credentials from STS and the metadata service; 0 means the requested
	// time, or an hour.
	SessionLifetime time.Duration

	// Registered receives the name and the root disk of each new image before the image is available; nil is ignored.
	// Registered must not call the server.
	Registered func(name string, root fleet.DiskID) error

	// Record receives every request; nil drops them.
	Record *requestlog.Record
	// Certificate for Serve. Not needed for Handler.
	Certificate tls.Certificate
	// Log gets a line for each failed work; nil means no log.
	Log *slog.Logger
}

// User is an IAM user with an access key. Policy is an IAM policy as JSON; empty allows everything.
type User struct {
	Name, KeyID, Secret, Policy string

	policy *policy
}

// Role is an IAM role.
type Role struct {
	Name string
	// Path is the path of the role, such as "/team/"; empty means "/".
	Path string
	// Federated are foreign tokens that the role trusts.
	Federated []Federation
}

// Subnet is where instances are.
type Subnet struct {
	ID, Zone string
	Tags     map[string]string
}

// Platform is an image of another owner.
type Platform struct {
	ID, Name, Owner string
	// Content is the fleet's source of root disks.
	Content fleet.DiskID
	// Architecture defaults to x86_64, RootDevice to /dev/xvda, Details to Linux/UNIX, BootMode to uefi-preferred, Size to 20 GiB.
	Architecture, RootDevice, Details, BootMode string
	Size                                        int64
	// Tpm is the version of TPM support, such as "v2.0"; Codes are the product codes. Usage defaults to RunInstances.
	Tpm, Usage string
	Codes      []string
	// Uefi is the variable store in base64. Disks are device names of further disks.
	Uefi  string
	Disks []string
	// Unbilled: an image that is registered from a copy of the disk loses the billing.
	Unbilled bool
}

// Latencies are simulated durations on AWS; 0 means the default, below 0 none. The defaults are common values.
type Latencies struct {
	Launch    time.Duration // from RunInstances to running: 15 s
	Start     time.Duration // 15 s
	Stop      time.Duration // the guest's own shutdown included: 40 s
	Terminate time.Duration // 30 s
	Forget    time.Duration // how long terminated or deregistered resources are shown: 1 h
	Snapshot  time.Duration // 5 min
	Image     time.Duration // from RegisterImage to available: 30 s
	Volume    time.Duration // a volume from a snapshot: 5 s
	Attach    time.Duration // attaching, detaching or deleting a volume: 5 s
	Root      time.Duration // replacing a root volume: 90 s
	Standby   time.Duration // entering, leaving, attaching, detaching: 10 s
	Health    time.Duration // until a group notices the state of an instance: 60 s
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
		{&l.Attach, 5 * time.Second}, {&l.Root, 90 * time.Second}, {&l.Standby, 10 * time.Second}, {&l.Health, time.Minute}, {&l.Retry, time.Minute},
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

// Throttle holds the rate limits of an account: EC2 has a bucket for reads and a bucket for writes, Auto Scaling a
// single bucket. 0 means the default; rates are per simulated second.
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
	case c.Fleet == nil:
		return c, errors.New("aws simulator: Fleet is required")
	case len(c.Users) == 0:
		return c, errors.New("aws simulator: one of Users is required")
	}
	if len(c.Subnets) == 0 {
		for _, zone := range []string{"a", "b", "c"} {
			c.Subnets = append(c.Subnets, Subnet{ID: "subnet-0000000000000000" + zone, Zone: c.Region + zone})
		}
	}
	c.Users = slices.Clone(c.Users)
	for i, u := range c.Users {
		if u.Policy == "" {
			continue
		}
		p, err := parsePolicy(u.Policy)
		if err != nil {
			return c, fmt.Errorf("aws simulator: user %s: %w", u.Name, err)
		}
		c.Users[i].policy = p
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
