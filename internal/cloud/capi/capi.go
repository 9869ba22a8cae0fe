package capi

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Images is what this PoolProvider asks of the ImageProvider: a version before a template names it.
type Images interface {
	cloud.ImageNames
	ImageID(ref cloud.FamilyVersion) string
	VersionOf(line cloud.ImageFamily, image string) (version string, latest bool)
	Image(ctx context.Context, ref cloud.FamilyVersion) (cloud.Image, error)
}

// Config of the recipes. All fields are needed.
type Config struct {
	// Management is the cluster that has the objects of Cluster API.
	Management *rest.Config
	// Cluster whose nodes these are, in the management cluster.
	Cluster types.NamespacedName
	// Images of the cloud that the nodes are in.
	Images Images
}

// PoolProvider has the pools of one Cluster of Cluster API. It is safe for concurrent use.
type PoolProvider struct{ *world }

// world is what there is to look at and to write, and what this process remembers of it.
type world struct {
	cluster types.NamespacedName
	images  Images
	// groups of the cloud's own, where machine pools are made of such; nil on other clouds.
	groups  cloud.PoolProvider
	kube    *management
	account kubernetes.Interface

	mu sync.Mutex
	// home is where the Cluster's machines and images are, once it is known: it never changes.
	home *home
	// machines are the names of Machines by their providerIDs, as they were seen last.
	machines map[cloud.InstanceID]string
}

var (
	_ cloud.PoolProvider      = (*PoolProvider)(nil)
	_ cloud.InstanceLister    = (*PoolProvider)(nil)
	_ cloud.PoolFinder        = (*PoolProvider)(nil)
	_ cloud.PermissionChecker = (*PoolProvider)(nil)
	_ cloud.Remover           = (*PoolProvider)(nil)
)

// New makes the recipes. It does no I/O.
func New(c Config) (*PoolProvider, error) {
	if c.Management == nil || c.Images == nil || c.Cluster.Namespace == "" || c.Cluster.Name == "" {
		return nil, errors.New("recipes of Cluster API: the configuration names no management cluster, no Cluster or no images")
	}
	kube, err := connectTo(c.Management, c.Cluster.Namespace)
	if err != nil {
		return nil, err
	}
	account, err := kubernetes.NewForConfig(c.Management)
	if err != nil {
		return nil, fmt.Errorf("connect to the management cluster: %w", err)
	}
	w := &world{cluster: c.Cluster, images: c.Images, kube: kube, account: account, machines: map[cloud.InstanceID]string{}}
	if of, able := c.Images.(cloud.Grouped); able {
		w.groups = of.Groups()
	}
	return &PoolProvider{w}, nil
}

// ofCluster selects the objects of the Cluster.
func (r *world) ofCluster() string { return labelCluster + "=" + r.cluster.Name }

// home is where a Cluster's machines and images are.
type home struct {
	// place of its images, and location of its machines.
	place, location string
}

// where reads the Cluster's infrastructure, once in this process.
func (r *world) where(ctx context.Context) (home, error) {
	r.mu.Lock()
	known := r.home
	r.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	cluster, err := r.theCluster(ctx, opLook)
	if err != nil {
		return home{}, err
	}
	named := cluster.reference("spec", "infrastructureRef")
	kind, found := infrastructureOfCluster(named.GroupKind)
	if !found {
		return home{}, &cloud.Error{Kind: cloud.Unsupported, Op: opLook, Resource: cluster.String(), Code: reasonInfrastructure,
			Message: fmt.Sprintf("its infrastructure is %s: Kamino knows those of AWSCluster and AzureCluster", named)}
	}
	of, err := r.kube.get(ctx, named.GroupKind, named.name)
	if err != nil {
		return home{}, err
	}
	var at home
	at.place, at.location = kind.place(specOf(of, "spec"))
	if at.place == "" {
		return home{}, &cloud.Error{Kind: cloud.Unavailable, Op: opLook, Resource: of.String(), Message: "it does not say yet where its machines are: wait until it is provisioned"}
	}
	r.mu.Lock()
	r.home = &at
	r.mu.Unlock()
	return at, nil
}

// infrastructureOfCluster is that of the kind of a cluster's infrastructure.
func infrastructureOfCluster(kind schema.GroupKind) (infrastructure, bool) {
	for _, known := range infrastructures {
		if known.cluster == kind.Kind && kind.Group == infrastructureGroup {
			return known, true
		}
	}
	return infrastructure{}, false
}
