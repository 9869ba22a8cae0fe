package aws

import (
	"cmp"
	"context"
	"fmt"
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

// Config configures the providers of New.
type Config struct {
	// AWS holds credentials, endpoint and HTTP client. Calls use the region of the resource.
	AWS sdk.Config
	// Now returns the time; nil means time.Now.
	Now func() time.Time
	// OnRequest is as in cloud.Config.
	OnRequest func(class string, status int, throttled bool)
}

// Load reads the configuration from the sources of every AWS tool. A named file replaces "~/.aws/config". The SDK's HTTP client
// stays, because only that client reads AWS_CA_BUNDLE. The SDK makes no retries: callers know the deadline.
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
	loaded.AppID = cmp.Or(loaded.AppID, "kamino") // in the User-Agent, which CloudTrail shows
	if loaded.HTTPClient == nil {
		loaded.HTTPClient = awshttp.NewBuildableClient()
	}
	loaded.HTTPClient = WithPlainBodies(loaded.HTTPClient)
	return Config{AWS: loaded}, nil
}

// account is the state that all calls of a process share.
type account struct {
	config Config

	mu sync.Mutex
	// clients by service and region.
	clients map[string]any
	// imageTexts are the names of images by region and ID. The name of an image never changes.
	imageTexts map[string]string
	// seen are images by region and ID.
	cachedImages map[string]cachedImage
	// available are images of Kamino by text, from recent reads.
	available map[string]cachedImage
	// created and gone are the resources that this process created and deleted. EC2 may show a new resource late, and a
	// deleted resource for some time. Keys of made are request keys; keys of gone are region and ID.
	created map[string]createdResource
	deleted map[string]time.Time
	// unanswered are the IDs of resources whose deletion had no answer.
	unanswered map[string]bool
	// versions are launch template versions by versionKey.
	versions map[string]seenVersion
	// unreadable are the versions that AWS did not let this process read, by versionKey.
	unreadable map[string]bool
	// members are the pools of instances by region and ID, or the reasons for no pool.
	members map[string]membership
	// uefi are UEFI variables of donors, by region and ID.
	uefi map[string]uefiVariables
	// groupTags are the tags of groups, from the last reads.
	groupTags map[cloud.PoolID]map[string]string
	// denials are regions in which the credential may not read groups.
	denials map[string]denial

	// largeRegions are regions whose groups take several requests.
	largeRegions map[string]bool
	// completed are complete snapshots by request key, from recent reads.
	completed map[string]completedSnapshots
	// standbys are instances that this process has put into standby, by region and ID.
	standbys map[string]enteredStandby

	// caller is the identity of the credential.
	caller callerIdentity

	uses *useLog
}

// createdResource is a resource that this process has created.
type createdResource struct {
	id   string
	tags map[string]string // the caller's
	at   time.Time
}

// consistencyDelay is the longest time until EC2 shows a change. Source: EC2, "Eventual consistency" ("a few minutes").
const consistencyDelay = 5 * time.Minute

func newAccount(c Config) *account {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &account{
		config: c, clients: map[string]any{}, imageTexts: map[string]string{}, available: map[string]cachedImage{}, cachedImages: map[string]cachedImage{},
		created: map[string]createdResource{}, deleted: map[string]time.Time{}, members: map[string]membership{}, denials: map[string]denial{},
		groupTags: map[cloud.PoolID]map[string]string{}, uefi: map[string]uefiVariables{},
		versions: map[string]seenVersion{}, unreadable: map[string]bool{}, unanswered: map[string]bool{},
		largeRegions: map[string]bool{}, completed: map[string]completedSnapshots{}, standbys: map[string]enteredStandby{},
		uses: &useLog{now: c.Now, at: map[string]time.Time{}},
	}
}

// ec2 returns the EC2 client of a region.
func (a *account) ec2(region string) *ec2.Client {
	return client(a, "ec2", region, func() *ec2.Client {
		return ec2.NewFromConfig(a.config.AWS, func(o *ec2.Options) {
			o.Region, o.Retryer, o.APIOptions = region, sdk.NopRetryer{}, a.requestLayers(o.APIOptions, region)
		})
	})
}

// autoScaling returns the Auto Scaling client of a region.
func (a *account) autoScaling(region string) *autoscaling.Client {
	return client(a, "autoscaling", region, func() *autoscaling.Client {
		return autoscaling.NewFromConfig(a.config.AWS, func(o *autoscaling.Options) {
			o.Region, o.Retryer, o.APIOptions = region, sdk.NopRetryer{}, a.requestLayers(o.APIOptions, region)
		})
	})
}

// sts returns the STS client of a region.
func (a *account) sts(region string) *sts.Client {
	return client(a, "sts", region, func() *sts.Client {
		return sts.NewFromConfig(a.config.AWS, func(o *sts.Options) {
			o.Region, o.Retryer, o.APIOptions = region, sdk.NopRetryer{}, a.requestLayers(o.APIOptions, region)
		})
	})
}

// iam returns the IAM client. IAM has an endpoint for the region's partition.
func (a *account) iam(region string) *iam.Client {
	return client(a, "iam", region, func() *iam.Client {
		return iam.NewFromConfig(a.config.AWS, func(o *iam.Options) {
			o.Region, o.Retryer, o.APIOptions = region, sdk.NopRetryer{}, a.requestLayers(o.APIOptions, region)
		})
	})
}

// client returns the client of a service and a region, and makes the client at the first call.
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

// requestLayers adds the layers of every request, in this order.
func (a *account) requestLayers(own []func(*middleware.Stack) error, region string) []func(*middleware.Stack) error {
	return append(own, readCacheLayer(region), a.uses.layer(region), a.countRequests)
}

// recordCreated records a created resource under a request key, with the caller's tags.
func (a *account) recordCreated(as, id string, tags map[string]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.created[as] = createdResource{id, maps.Clone(tags), a.config.Now()}
}

// isRecentlyCreated reports whether recentlyCreated has a resource.
func (a *account) isRecentlyCreated(as string) bool { return a.recentlyCreated(as).id != "" }

// recentlyCreated returns the resource that this process created recently under the key. The ID is empty if there is none, or if
// this process deleted the resource.
func (a *account) recentlyCreated(as string) createdResource {
	a.mu.Lock()
	defer a.mu.Unlock()
	t, found := a.created[as]
	if found && a.config.Now().Sub(t.at) > consistencyDelay {
		delete(a.created, as)
		return createdResource{}
	}
	return t
}

// isRecent reports whether this process created a resource recently.
func isRecent(a *account, id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range a.created {
		if t.id == id && a.config.Now().Sub(t.at) <= consistencyDelay {
			return true
		}
	}
	return false
}

// recordDeleted records that this process deleted a resource.
func (a *account) recordDeleted(region, id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deleted[region+"/"+id] = a.config.Now()
	for as, t := range a.created {
		if t.id == id {
			delete(a.created, as)
		}
	}
}

// deleteByID sends a deletion. The published policies allow it by the tags of the resource, and what is gone has none: if AWS denies a
// deletion after one without an answer, and shows no such resource, the error is that of the read.
func deleteByID(a *account, of fmt.Stringer, id string, send, read func() error) error {
	err := send()
	a.mu.Lock()
	before := a.unanswered[id]
	kind := cloud.KindOf(fail("delete", of, err))
	switch kind { //nolint:exhaustive // other answers say what happened
	case cloud.Unavailable:
		a.unanswered[id] = true
	case "":
		delete(a.unanswered, id)
	}
	a.mu.Unlock()
	if before && kind == cloud.Denied {
		if shown := read(); isNotFound(shown) {
			return shown
		}
	}
	return err
}

// forgetDeleted removes the record of a deletion.
func forgetDeleted(a *account, region, id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.deleted, region+"/"+id)
}

// recentlyDeleted reports whether this process deleted the resource recently.
func (a *account) recentlyDeleted(region, id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, found := a.deleted[region+"/"+id]
	if found && a.config.Now().Sub(at) > consistencyDelay {
		delete(a.deleted, region+"/"+id)
		return false
	}
	return found
}
