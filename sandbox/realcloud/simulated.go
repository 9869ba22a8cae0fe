package realcloud

import (
	"context"
	"crypto/rand"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	simulator "github.com/kamino-dev/kamino/sandbox/aws"
	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/fleet"
)

// simulation is the simulated AWS in this process, with a time that only waits move.
type simulation struct {
	world
	server *simulator.Server
	web    *httptest.Server
	dir    string
}

// Facts of the simulated account.
const (
	simulatedAccount = "123456789012"
	simulatedRegion  = "eu-central-1"
	simulatedKey     = "AKIAIOSFODNN7EXAMPLE"
	// simulatedLag is how long the simulation does not show what is new.
	simulatedLag = 20 * time.Second
)

// simulate starts a simulated AWS for a user with a policy; an empty policy allows everything.
func simulate(policy string) (*simulation, error) {
	dir, err := os.MkdirTemp("", "kamino-verify-")
	if err != nil {
		return nil, err
	}
	s := &simulation{dir: dir}
	calendar := &clock.Calendar{}
	now := clock.Clock{Calendar: calendar}
	secret := rand.Text()
	s.server, err = simulator.New(simulator.Config{Dir: dir, Clock: now, Fleet: fleet.NewMemory(), Account: simulatedAccount, Region: simulatedRegion,
		Lag: simulatedLag, Users: []simulator.User{{Name: "someone", KeyID: simulatedKey, Secret: secret, Policy: policy}},
		Images: []simulator.Platform{{ID: "ami-0123456789abcdef0", Name: "al2023-ami-minimal-2023.9.20251117.1-kernel-6.1-x86_64",
			Content: "platform:x86", Size: 2, Uefi: "QU1aTlVFRkkAAAAA", Tpm: "v2.0"}},
		DeniedKeys: []string{noKey},
		Throttle:   simulator.Throttle{ReadBurst: 1e6, WriteBurst: 1e6, GroupBurst: 1e6}})
	if err != nil {
		_ = os.RemoveAll(dir) // the first error counts
		return nil, err
	}
	s.web = httptest.NewUnstartedServer(s.server.Handler())
	s.web.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.web.StartTLS()
	s.world = world{now: now.Now, config: sdk.Config{Region: simulatedRegion, BaseEndpoint: sdk.String(s.web.URL), HTTPClient: s.web.Client(),
		Credentials: credentials.NewStaticCredentialsProvider(simulatedKey, secret, "")},
		wait: func(ctx context.Context, d time.Duration) error {
			calendar.Skip(d)
			// The simulated cloud works on its own, in real time.
			time.Sleep(time.Millisecond)
			return ctx.Err()
		}}
	return s, nil
}

func (s *simulation) close() {
	s.web.Close()
	s.server.Close()
	_ = os.RemoveAll(s.dir) // in the directory for temporary files
}

// simulatedReport is the report of a whole run against the simulated AWS.
func simulatedReport(ctx context.Context, out io.Writer, saw func(Call)) (*Report, error) {
	sim, err := simulate("")
	if err != nil {
		return nil, err
	}
	defer sim.close()
	sim.saw = saw
	s := open(sim.world, out, newName(), sim.now().Add(lifetime))
	s.report.Simulated = true
	if err := s.tryAll(ctx, func() error { return nil }); err != nil {
		return nil, err
	}
	return s.report, s.clean(ctx)
}

// newName is the name of a new run. It has no form of an ID.
func newName() string { return "r" + strings.ToLower(rand.Text()[:7]) + "z" }
