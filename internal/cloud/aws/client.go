package aws

import (
	"context"
	"maps"
	"os"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/middleware"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Config is what an ImageProvider is made of.
type Config struct {
	// AWS says how AWS is reached: credentials, endpoint, HTTP client. The region is each resource's own.
	AWS sdk.Config
	// Now is the time; time.Now if nil.
	Now func() time.Time
	// OnRequest is that of cloud.Config.
	OnRequest func(class string, status int, throttled bool)
}

// Load finds the configuration as every AWS tool does: environment, shared files, web identity, Pod Identity, instance metadata.
// The SDK's own HTTP client is left in its place, for it alone reads AWS_CA_BUNDLE. Nothing is tried twice by the SDK: whoever calls
// knows its deadline, and repeats. A file, if one is named, takes the place of the shared configuration file ("~/.aws/config").
func Load(ctx context.Context, file string) (Config, error) {
	options := []func(*config.LoadOptions) error{config.WithRetryer(func() sdk.Retryer { return sdk.NopRetryer{} })}
	if file != "" {
		if _, err := os.Stat(file); err != nil {
			return Config{}, &cloud.Error{Kind: cloud.Invalid, Op: "read", Resource: "AWS's configuration", Message: oneLine(err.Error()), Err: err}
		}
		options = append(options, config.WithSharedConfigFiles([]string{file}))
	}
	loaded, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return Config{}, &cloud.Error{Kind: cloud.Invalid, Op: "read", Resource: "AWS's configuration", Message: oneLine(err.Error()), Err: err}
	}
	if loaded.HTTPClient == nil {
		loaded.HTTPClient = awshttp.NewBuildableClient()
	}
	loaded.HTTPClient = OnWire(loaded.HTTPClient)
	return Config{AWS: loaded}, nil
}

// account is what all calls of one process share.
type account struct {
	config Config

	mu sync.Mutex
	// clients by their service and region.
	clients map[string]any
	// names are what images are called that were seen, by the region and the ID: an image's name never changes.
	names map[string]string
	// seen are images that were read by their IDs, likewise.
	seen map[string]seenImage
	// made are the resources that this process has asked for, by what they were asked for as, and gone those that it has deleted, by
	// their region and ID: for a while AWS may show the one not yet, and the other still.
	made map[string]trace
	gone map[string]time.Time
	// versions of launch templates that were read, by what names them.
	versions map[string]seenVersion
	// begun are the trials that this process has begun, by their keys.
	begun map[string]cloud.TrialSpec
	// members are the pools of instances, or why they have none, by region and ID.
	members map[string]membership
	// denials are regions in which nobody may ask for them.
	denials map[string]denial
}

// trace is what this process has made.
type trace struct {
	id   string
	tags map[string]string // the caller's
	at   time.Time
}

// settled is how long after a change EC2 may still answer as if it had not been made: "a few minutes" at most, by its "Eventual
// consistency" page.
const settled = 5 * time.Minute

func newAccount(c Config) *account {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &account{
		config: c, clients: map[string]any{}, names: map[string]string{}, seen: map[string]seenImage{},
		made: map[string]trace{}, gone: map[string]time.Time{}, members: map[string]membership{}, denials: map[string]denial{}, begun: map[string]cloud.TrialSpec{}, versions: map[string]seenVersion{},
	}
}

// in is the client of a region.
func (a *account) in(region string) *ec2.Client {
	return client(a, "ec2", region, func() *ec2.Client {
		return ec2.NewFromConfig(a.config.AWS, func(o *ec2.Options) {
			o.Region, o.Retryer, o.APIOptions = region, sdk.NopRetryer{}, a.around(o.APIOptions, region)
		})
	})
}

// groups is the client of a region for Auto Scaling.
func (a *account) groups(region string) *autoscaling.Client {
	return client(a, "autoscaling", region, func() *autoscaling.Client {
		return autoscaling.NewFromConfig(a.config.AWS, func(o *autoscaling.Options) {
			o.Region, o.Retryer, o.APIOptions = region, sdk.NopRetryer{}, a.around(o.APIOptions, region)
		})
	})
}

// tokens is the client of a region for STS.
func (a *account) tokens(region string) *sts.Client {
	return client(a, "sts", region, func() *sts.Client {
		return sts.NewFromConfig(a.config.AWS, func(o *sts.Options) {
			o.Region, o.Retryer, o.APIOptions = region, sdk.NopRetryer{}, a.around(o.APIOptions, region)
		})
	})
}

// policies is the client for IAM, whose endpoint is that of the region's partition.
func (a *account) policies(region string) *iam.Client {
	return client(a, "iam", region, func() *iam.Client {
		return iam.NewFromConfig(a.config.AWS, func(o *iam.Options) {
			o.Region, o.Retryer, o.APIOptions = region, sdk.NopRetryer{}, a.around(o.APIOptions, region)
		})
	})
}

// client is the one of a service and a region, made once.
func client[Client any](a *account, service, region string, fresh func() *Client) *Client {
	a.mu.Lock()
	defer a.mu.Unlock()
	made, found := a.clients[service+" "+region].(*Client)
	if !found {
		made = fresh()
		a.clients[service+" "+region] = made
	}
	return made
}

// around are what each request goes through, in this order.
func (a *account) around(own []func(*middleware.Stack) error, region string) []func(*middleware.Stack) error {
	return append(own, onelook(region), a.counting)
}

// remember that something was asked for, with the caller's tags, and got the ID.
func (a *account) remember(as, id string, tags map[string]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.made[as] = trace{id, maps.Clone(tags), a.config.Now()}
}

// lately is what this process asked for a short time ago, unless it has deleted it since; its ID is empty if there is none.
func (a *account) lately(as string) trace {
	a.mu.Lock()
	defer a.mu.Unlock()
	t, found := a.made[as]
	if found && a.config.Now().Sub(t.at) > settled {
		delete(a.made, as)
		return trace{}
	}
	return t
}

// bury notes that something was deleted.
func (a *account) bury(region, id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gone[region+"/"+id] = a.config.Now()
	for as, t := range a.made {
		if t.id == id {
			delete(a.made, as)
		}
	}
}

// buried tells whether this process deleted it a short time ago.
func (a *account) buried(region, id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, found := a.gone[region+"/"+id]
	if found && a.config.Now().Sub(at) > settled {
		delete(a.gone, region+"/"+id)
		return false
	}
	return found
}

// ImageProvider implements cloud.ImageProvider and its powers.
type ImageProvider struct{ *account }

var _ interface {
	cloud.ImageProvider
	cloud.FamilySnapshotLister
	cloud.FamilyPermissionChecker
	cloud.Grouped
} = (*ImageProvider)(nil)

// PoolProvider implements cloud.PoolProvider for Auto Scaling groups with launch templates, and its powers.
type PoolProvider struct {
	*account
	// capa tells that Cluster API's provider writes the launch templates, and nothing of them is Kamino's to write.
	capa bool
}

var _ interface {
	cloud.PoolProvider
	cloud.PermissionChecker
	cloud.InstanceLister
	cloud.PoolFinder
	cloud.Rebuilder
	cloud.Remover
	cloud.RecipeRestorer
	cloud.TrialRunner
} = (*PoolProvider)(nil)

// New makes both halves of AWS, which share what they know. It asks nobody.
func New(c Config) (*ImageProvider, *PoolProvider) {
	a := newAccount(c)
	return &ImageProvider{a}, &PoolProvider{account: a}
}

// Groups implements cloud.Grouped: the groups that Cluster API's provider makes of AWSMachinePools.
func (p *ImageProvider) Groups() cloud.PoolProvider {
	return &PoolProvider{account: p.account, capa: true}
}

// recipe reads what a group's next instance is built from.
func (p *PoolProvider) recipe(ctx context.Context, ref group) (recipe, error) {
	r, err := p.account.recipe(ctx, ref)
	r.capa = p.capa
	return r, err
}
