package aws

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/kamino-dev/kamino/sandbox/clock"
	"github.com/kamino-dev/kamino/sandbox/fleet"
)

const (
	testAccount = "123456789012"
	testRegion  = "eu-central-1"
	testKey     = "AKIAIOSFODNN7EXAMPLE"
	testImage   = "ami-0123456789abcdef0"
	testArm     = "ami-0fedcba9876543210"
	testType    = "m6i.large"
)

// testCloud is a server with clients of the real SDK. A test controls the time of the server.
type testCloud struct {
	*Server
	config   Config
	fleet    *fleet.Memory
	calendar *clock.Calendar
	web      *httptest.Server
	ec2      *ec2.Client
	asg      *autoscaling.Client
	sts      *sts.Client
}

func testConfig(t *testing.T, f *fleet.Memory) Config {
	t.Helper()
	return Config{Dir: t.TempDir(), Clock: clock.Clock{Calendar: &clock.Calendar{}}, Fleet: f, Account: testAccount, Region: testRegion,
		Users: []User{{Name: "kamino", KeyID: testKey, Secret: newUUID()}}, Roles: []Role{{Name: "node"}},
		Images: []Platform{{ID: testImage, Name: "al2023", Content: "platform:x86"},
			{ID: testArm, Name: "al2023-arm", Content: "platform:arm", Architecture: "arm64", BootMode: "uefi"}},
		// A separate test covers throttling.
		Throttle: Throttle{ReadBurst: 1e6, WriteBurst: 1e6, GroupBurst: 1e6}}
}

// newCloud starts a server; change may be nil.
func newCloud(t *testing.T, change func(*Config)) *testCloud {
	t.Helper()
	f := fleet.NewMemory()
	config := testConfig(t, f)
	if change != nil {
		change(&config)
	}
	return openCloud(t, config, f)
}

func openCloud(t *testing.T, config Config, f *fleet.Memory) *testCloud {
	t.Helper()
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewTLSServer(s.Handler())
	t.Cleanup(func() { web.Close(); s.Close() })
	c := &testCloud{Server: s, config: config, fleet: f, calendar: config.Clock.Calendar, web: web}
	c.use(credentials.NewStaticCredentialsProvider(testKey, config.Users[0].Secret, ""))
	return c
}

// as returns an SDK configuration with these credentials and without retries.
func (c *testCloud) as(provider sdk.CredentialsProvider) sdk.Config {
	return sdk.Config{Region: testRegion, Credentials: provider, HTTPClient: c.client(), BaseEndpoint: sdk.String(c.web.URL),
		Retryer: func() sdk.Retryer { return sdk.NopRetryer{} }}
}

// use lets the clients sign with these credentials.
func (c *testCloud) use(provider sdk.CredentialsProvider) {
	config := c.as(provider)
	c.ec2, c.asg, c.sts = ec2.NewFromConfig(config), autoscaling.NewFromConfig(config), sts.NewFromConfig(config)
}

// advance lets simulated time pass, from event to event.
func (c *testCloud) advance(d time.Duration) {
	w := c.world
	c.rest()
	for end := w.time.now() + d; ; {
		next := end
		w.store.Read(func(st *state) {
			for _, e := range st.Events {
				next = min(next, e.At)
			}
		})
		if wait := next - w.time.now(); wait > 0 {
			c.calendar.Skip(wait)
		}
		c.rest()
		if next == end {
			return
		}
	}
}

// rest completes all work that is due.
func (c *testCloud) rest() {
	w := c.world
	for {
		w.advance()
		var busy []string
		due := false
		w.store.Read(func(st *state) {
			for _, e := range st.Events {
				if e.Busy {
					busy = append(busy, e.Target)
				}
			}
			due = st.next(w.time.now()) != nil
		})
		if len(busy) == 0 && !due {
			return
		}
		if len(busy) > 0 {
			<-w.lanes.Run(busy, func() {})
		}
	}
}

// ok requires a successful call, and returns the result.
func ok[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// wantCode requires an error of the API with this status and code.
func wantCode(t *testing.T, err error, status int, code string) {
	t.Helper()
	var api smithy.APIError
	var response *smithyhttp.ResponseError
	if !errors.As(err, &api) || !errors.As(err, &response) {
		t.Fatalf("error is %v, want %d %s", err, status, code)
	}
	if api.ErrorCode() != code || response.HTTPStatusCode() != status || api.ErrorMessage() == "" {
		t.Fatalf("error is %d %s %q, want %d %s", response.HTTPStatusCode(), api.ErrorCode(), api.ErrorMessage(), status, code)
	}
}

const refused = http.StatusBadRequest

// run launches instances and waits for them.
func (c *testCloud) run(t *testing.T, n int32, change func(*ec2.RunInstancesInput)) []ec2types.Instance {
	t.Helper()
	in := &ec2.RunInstancesInput{ImageId: sdk.String(testImage), InstanceType: testType, MinCount: &n, MaxCount: &n}
	if change != nil {
		change(in)
	}
	out, err := c.ec2.RunInstances(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	c.advance(time.Minute)
	return out.Instances
}

// currentInstance returns the current instance.
func (c *testCloud) currentInstance(t *testing.T, id string) ec2types.Instance {
	t.Helper()
	out, err := c.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	if err != nil {
		t.Fatal(err)
	}
	return out.Reservations[0].Instances[0]
}

func (c *testCloud) wantState(t *testing.T, id string, want ec2types.InstanceStateName) {
	t.Helper()
	if got := c.currentInstance(t, id).State.Name; got != want {
		t.Fatalf("instance %s is %s, want %s", id, got, want)
	}
}

// root is an instance's root volume's ID.
func root(i ec2types.Instance) string { return *i.BlockDeviceMappings[0].Ebs.VolumeId }

// shoot creates a snapshot of an instance's root volume and waits for the snapshot.
func (c *testCloud) shoot(t *testing.T, instance string) string {
	t.Helper()
	volume := root(c.currentInstance(t, instance))
	snap := ok(c.ec2.CreateSnapshot(t.Context(), &ec2.CreateSnapshotInput{VolumeId: &volume}))(t)
	c.advance(10 * time.Minute)
	return *snap.SnapshotId
}

// client hides WriteTo of the SDK's request bodies. A response may close a body during the
// send. The body then returns io.EOF, and net/http fails (smithy-go v1.28.8).
func (c *testCloud) client() *http.Client {
	client := *c.web.Client()
	under := client.Transport
	client.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Body != nil && r.Body != http.NoBody {
			r = r.WithContext(r.Context())
			r.Body = struct{ io.ReadCloser }{r.Body}
		}
		return under.RoundTrip(r)
	})
	return &client
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
