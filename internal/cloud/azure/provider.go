package azure

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	azcloud "github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/authorization/armauthorization/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Retries inside a call are few and short: a call returns at once, and the caller comes back. A
// Retry-After beyond the longest delay is not slept but returned, as Throttled or Unavailable.
const (
	maxRetries    = 2
	retryDelay    = 300 * time.Millisecond
	maxRetryDelay = 2 * time.Second
	// tryTimeout bounds one try. Azure answers long operations at once, so that no answer takes longer.
	tryTimeout = 60 * time.Second
	// maxOperations is on how many resources the operations are kept that this process began. Far fewer run at once.
	maxOperations = 256
	// applicationID opens the User-Agent of every request.
	applicationID = "kamino"
)

// Provider is Azure: scale sets over managed disks and galleries. It is safe for concurrent use.
type Provider struct {
	cloud.Provider
}

// Decorated implements cloud.Decorator: the powers are those of the halves.
func (p *Provider) Decorated() cloud.Provider { return p.Provider }

// ImageProvider is the half of instances, disks, snapshots and galleries, which needs no recipes of Azure's. It is safe for
// concurrent use.
type ImageProvider struct {
	*account
	// apart tells that the recipes are elsewhere, so that instances may stand by themselves.
	apart bool
}

// parse reads the ID of an instance whose disk is captured.
func (p *ImageProvider) parse(id cloud.InstanceID) (instance, error) {
	if p.apart {
		return parseVM(id)
	}
	return parseInstance(id)
}

// actions that a capture needs on instances, disks and images.
func (p *ImageProvider) actions() []string {
	if p.apart {
		return vmActions
	}
	return diskActions
}

// PoolProvider is the half of scale sets and their models. It is safe for concurrent use.
type PoolProvider struct{ *account }

// account is what both halves speak to Azure with, and what this process remembers of what it began.
type account struct {
	credential azcore.TokenCredential
	options    *arm.ClientOptions

	mu sync.Mutex
	// clients by subscription.
	clients map[string]*clients
	// operations that this process started, by resource ID in lower case: asked only for the reason when
	// the resource says Failed. Those of the last maxOperations resources are kept, begun in the order of recent.
	operations map[string]outcome
	recent     []string
	// joined is what a trial beside a scale set would join, as its model said last, by scaleSet: []need. Whoever asks for
	// permissions alone does not read the model again.
	joined sync.Map
	// makers are the snapshots for whose images this process makes a gallery or a definition, by the latter's ID.
	makers map[string]string
	// defined image definitions, by ID: seen complete and fitting their pool.
	defined map[string]bool
	// empty galleries and definitions, by ID: this process has made them, and no version in them yet.
	empty map[string]bool
	// tries are the scale sets that this process has seen with the mark of a trial apart, by ID.
	tries map[string]bool
	// traits of snapshots that this process has seen, by ID: diskTraits.
	traits sync.Map
	// zoneless regions, by subscription and region: seen to refuse zone-redundant storage.
	zoneless map[string]bool
}

var (
	_ cloud.Decorator               = (*Provider)(nil)
	_ cloud.ImageProvider           = (*ImageProvider)(nil)
	_ cloud.FamilySnapshotLister    = (*ImageProvider)(nil)
	_ cloud.ImageNames              = (*ImageProvider)(nil)
	_ cloud.FamilyPermissionChecker = (*ImageProvider)(nil)
	_ cloud.PoolProvider            = (*PoolProvider)(nil)
	_ cloud.InstanceLister          = (*PoolProvider)(nil)
	_ cloud.PoolFinder              = (*PoolProvider)(nil)
	_ cloud.PermissionChecker       = (*PoolProvider)(nil)
	_ cloud.RecipeRestorer          = (*PoolProvider)(nil)
)

// clients of one subscription.
type clients struct {
	scaleSets   *armcompute.VirtualMachineScaleSetsClient
	instances   *armcompute.VirtualMachineScaleSetVMsClient
	machines    *armcompute.VirtualMachinesClient
	disks       *armcompute.DisksClient
	encryption  *armcompute.DiskEncryptionSetsClient
	snapshots   *armcompute.SnapshotsClient
	galleries   *armcompute.GalleriesClient
	definitions *armcompute.GalleryImagesClient
	versions    *armcompute.GalleryImageVersionsClient
	usages      *armcompute.UsageClient
	permissions *armauthorization.PermissionsClient
	rolling     *armcompute.VirtualMachineScaleSetRollingUpgradesClient
}

// New makes a provider of both halves. It does no I/O: a wrong credential shows with the first call.
func New(_ context.Context, config Config) (*Provider, error) {
	shared, err := connect(config)
	if err != nil {
		return nil, err
	}
	return &Provider{cloud.New(&ImageProvider{shared, false}, &PoolProvider{shared})}, nil
}

// NewDisks makes the half of the disks alone, for recipes that are elsewhere, whose instances stand by themselves. It does no I/O.
func NewDisks(_ context.Context, config Config) (*ImageProvider, error) {
	shared, err := connect(config)
	if err != nil {
		return nil, err
	}
	return &ImageProvider{shared, true}, nil
}

// NewRecipes makes the half of the recipes alone, for disks that are elsewhere. It does no I/O.
func NewRecipes(_ context.Context, config Config) (*PoolProvider, error) {
	shared, err := connect(config)
	if err != nil {
		return nil, err
	}
	return &PoolProvider{shared}, nil
}

func connect(config Config) (*account, error) {
	if config.Credential == nil {
		return nil, errors.New("azure: the configuration has no credential: LoadConfig finds one")
	}
	if config.Cloud.ActiveDirectoryAuthorityHost == "" && len(config.Cloud.Services) == 0 {
		config.Cloud = azcloud.AzurePublic
	}
	options := &arm.ClientOptions{
		ClientOptions: policy.ClientOptions{
			Cloud:     config.Cloud,
			Transport: config.Transport,
			Retry: policy.RetryOptions{
				MaxRetries: maxRetries, RetryDelay: retryDelay, MaxRetryDelay: maxRetryDelay, TryTimeout: tryTimeout,
			},
			Telemetry: policy.TelemetryOptions{ApplicationID: applicationID},
		},
		// Registering a resource provider is a change of the subscription that nobody asked for.
		DisableRPRegistration: true,
	}
	options.PerCallPolicies = []policy.Policy{onelook{}}
	if config.OnRequest != nil {
		options.PerRetryPolicies = []policy.Policy{watch{config.OnRequest}}
	}
	return &account{
		credential: config.Credential,
		options:    options,
		clients:    map[string]*clients{},
		operations: map[string]outcome{},
		makers:     map[string]string{},
		defined:    map[string]bool{},
		empty:      map[string]bool{},
		tries:      map[string]bool{},
		zoneless:   map[string]bool{},
	}, nil
}

// watch tells an observer of every try of every request.
type watch struct {
	tell func(method string, status int, throttled bool)
}

// Do implements policy.Policy.
func (w watch) Do(request *policy.Request) (*http.Response, error) {
	response, err := request.Next()
	status := 0
	if response != nil {
		status = response.StatusCode
	}
	w.tell(request.Raw().Method, status, status == http.StatusTooManyRequests)
	return response, err
}

// in gives the clients of a subscription.
func (p *account) in(s scaleSet) (*clients, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if described, able := p.credential.(*renewed); able && described.renew() {
		clear(p.clients) // each keeps a token of the credential before
	}
	if known := p.clients[s.subscription]; known != nil {
		return known, nil
	}
	compute, err := armcompute.NewClientFactory(s.subscription, p.credential, p.options)
	if err != nil {
		return nil, fail("connect to", s, err)
	}
	permissions, err := armauthorization.NewPermissionsClient(s.subscription, p.credential, p.options)
	if err != nil {
		return nil, fail("connect to", s, err)
	}
	made := &clients{
		scaleSets:   compute.NewVirtualMachineScaleSetsClient(),
		instances:   compute.NewVirtualMachineScaleSetVMsClient(),
		machines:    compute.NewVirtualMachinesClient(),
		disks:       compute.NewDisksClient(),
		encryption:  compute.NewDiskEncryptionSetsClient(),
		snapshots:   compute.NewSnapshotsClient(),
		galleries:   compute.NewGalleriesClient(),
		definitions: compute.NewGalleryImagesClient(),
		versions:    compute.NewGalleryImageVersionsClient(),
		usages:      compute.NewUsageClient(),
		permissions: permissions,
		rolling:     compute.NewVirtualMachineScaleSetRollingUpgradesClient(),
	}
	p.clients[s.subscription] = made
	return made, nil
}

// eachGroup goes through the resource groups of what lies in them, each once, and ends with the first error.
func (p *account) eachGroup(sets []scaleSet, do func(scaleSet, *clients) error) error {
	seen := map[string]bool{}
	for _, s := range sets {
		if seen[s.scope()] {
			continue
		}
		seen[s.scope()] = true
		clients, err := p.in(s)
		if err != nil {
			return err
		}
		if err := do(s, clients); err != nil {
			return err
		}
	}
	return nil
}

// outcome asks a long operation whether it has ended, and with which error.
type outcome func(context.Context) (done bool, err error)

// remember keeps a long operation that was started, so that its error can be told if it fails. Nothing
// waits for it: the resource's own state is what counts.
func remember[T any](p *account, id string, poller *runtime.Poller[T]) {
	p.keep(strings.ToLower(id), func(ctx context.Context) (bool, error) {
		if !poller.Done() {
			response, err := poller.Poll(ctx)
			if err != nil {
				return false, err
			}
			if poller.Done() && saysSucceeded(response) {
				return true, nil // the SDK would read the whole resource once more for its result
			}
		}
		if !poller.Done() {
			return false, nil
		}
		_, err := poller.Result(ctx)
		return true, err
	})
}

// keep keeps the operation on the resource, and no more than so many: a controller runs for months, and one that is
// forgotten costs the cloud's own words on a failure, nothing else.
func (p *account) keep(id string, operation outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recent = append(slices.DeleteFunc(p.recent, func(other string) bool { return other == id }), id)
	p.operations[id] = operation
	if len(p.recent) > maxOperations {
		delete(p.operations, p.recent[0])
		p.recent = p.recent[1:]
	}
}

// saysSucceeded tells whether the status of a long operation is its good end.
// Source: Azure Resource Manager, "Track asynchronous Azure operations".
func saysSucceeded(response *http.Response) bool {
	body, err := runtime.Payload(response)
	if err != nil {
		return false
	}
	var operation struct {
		Status string `json:"status"`
	}
	return json.Unmarshal(body, &operation) == nil && strings.EqualFold(operation.Status, "Succeeded")
}

// ask asks the operation on the resource that this process started whether it has ended, and how. Not
// done, without an error, if there is none.
func (p *account) ask(ctx context.Context, id string) (done bool, err error) {
	p.mu.Lock()
	ask := p.operations[strings.ToLower(id)]
	p.mu.Unlock()
	if ask == nil {
		return false, nil
	}
	return ask(ctx)
}

// reason is Azure's code and message for the failure of the operation on the resource that this process started;
// empty if it did not start one, or if Azure does not tell any more.
func (p *account) reason(ctx context.Context, id string) string {
	var response *azcore.ResponseError
	if done, err := p.ask(ctx, id); !done || !errors.As(err, &response) {
		return ""
	}
	return withCode(response.ErrorCode, readBody(response.RawResponse).text())
}

// makeFor notes for which snapshot's image a gallery or a definition is made.
func (p *account) makeFor(id, snapshotID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.makers[strings.ToLower(id)] = snapshotID
}

func (p *account) madeFor(id, snapshotID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.makers[strings.ToLower(id)] == snapshotID
}

// began tells whether this process made a resource, or still makes it.
func (p *account) began(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.operations[strings.ToLower(id)] != nil
}

// forget drops all that is remembered of a resource that was found to be gone.
func (p *account) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.operations, strings.ToLower(id))
	p.recent = slices.DeleteFunc(p.recent, func(other string) bool { return other == strings.ToLower(id) })
	delete(p.makers, strings.ToLower(id))
	delete(p.defined, strings.ToLower(id))
	delete(p.empty, strings.ToLower(id))
	delete(p.tries, strings.ToLower(id))
}

// fill has galleries and definitions no longer taken for empty.
func (p *account) fill(ids ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		delete(p.empty, strings.ToLower(id))
	}
}

func (p *account) known(set map[string]bool, key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return set[strings.ToLower(key)]
}

func (p *account) learn(set map[string]bool, key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	set[strings.ToLower(key)] = true
}

// value reads an optional field of the SDK's models.
func value[T any](pointer *T) T {
	if pointer == nil {
		var zero T
		return zero
	}
	return *pointer
}

// tagsOf copies tags. One without a value counts as absent: some versions of Azure's API store an empty
// text where a tag was removed.
func tagsOf(tags map[string]*string) map[string]string {
	out := make(map[string]string, len(tags))
	for name, text := range tags {
		if value(text) != "" {
			out[name] = *text
		}
	}
	return out
}

// toTags is the SDK's form of tags.
func toTags(tags map[string]string) map[string]*string {
	out := make(map[string]*string, len(tags))
	for name, text := range tags {
		if text != "" {
			out[name] = &text
		}
	}
	return out
}
