package world

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/sandbox/capi"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/region"
	"github.com/kamino-dev/kamino/sandbox/sandboxdir"
)

// How nodes join if Cluster API builds the nodes. Its controllers use the sandbox's API server, as management and
// workload cluster.

// capiCluster is the Cluster of the sandbox's nodes.
var capiCluster = types.NamespacedName{Namespace: "clusters", Name: clusterName}

// startClusterAPI starts the controllers, creates a Cluster with the sandbox's control plane, and lets Cluster API
// make the pools.
func (w *World) startClusterAPI(ctx context.Context) error {
	if !w.directory.ClusterAPI {
		return nil
	}
	began := time.Now()
	if err := w.letNodesJoin(ctx); err != nil {
		return fmt.Errorf("let nodes join with a token: %w", err)
	}
	dir := w.directory.Path("clusterapi")
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(kubeconfig, w.servers.Kubeconfig, 0o600)); err != nil {
		return err
	}
	// capi.Start waits for the processes: errors of their start appear here, and not in a pool.
	config := rest.CopyConfig(w.plane.Admin())
	config.QPS, config.Burst = 200, 400
	controllers, err := capi.Start(ctx, capi.Options{Bin: w.options.ClusterAPI, Config: config, Kubeconfig: kubeconfig, Dir: dir, Kubeadm: true,
		AWS: w.options.awsProvider(w.Environment())})
	if err != nil {
		return fmt.Errorf("start the controllers of Cluster API: %w", err)
	}
	w.onStop(controllers.Stop)
	objects, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	over, err := region.NewClusterAPI(w.cloud, objects, capiCluster, disk.DefaultKubelet)
	if err != nil {
		return err
	}
	if w.options.AWSProvider != "" {
		over = over.WithProvider()
	}
	if err := makeCluster(ctx, w, objects, over); err != nil {
		return fmt.Errorf("the Cluster %s of Cluster API: %w", capiCluster, err)
	}
	w.cloud = over
	if err := w.imitateProvider(ctx, config, objects, over); err != nil {
		return err
	}
	w.progress("Cluster API: the core controllers and the kubeadm provider reconcile cluster %s (%.1f s)", capiCluster, time.Since(began).Seconds())
	return nil
}

// awsProvider is the real provider for AWS; nil if the sandbox imitates the provider.
func (o Options) awsProvider(env []sandboxdir.Variable) *capi.AWSProvider {
	if o.AWSProvider == "" {
		return nil
	}
	p := &capi.AWSProvider{Bin: o.AWSProvider}
	for _, v := range env {
		p.Env = append(p.Env, v.Name+"="+v.Value)
	}
	return p
}

// imitateProvider runs the imitated infrastructure provider, unless the real provider runs.
func (w *World) imitateProvider(ctx context.Context, config *rest.Config, objects client.Client, over *region.ClusterAPI) error {
	if w.options.AWSProvider != "" {
		return nil
	}
	w.serve("the infrastructure provider of Cluster API", func() error {
		return capi.RunInfrastructure(w.ctx, config, over.Makers(), logr.Discard())
	})
	if sets := over.ScaleSets(); sets != nil {
		if err := capi.KeepGate(ctx, objects); err != nil {
			return fmt.Errorf("the infrastructure provider's feature gates: %w", err)
		}
		w.serve("the machine pools of the infrastructure provider of Cluster API", func() error {
			return capi.RunMachinePools(w.ctx, config, sets, logr.Discard())
		})
	}
	if groups := over.Groups(); groups != nil {
		w.serve("the machine pools of the infrastructure provider of Cluster API", func() error {
			interval := time.Duration(float64(capi.GroupInterval) / w.options.TimeScale)
			return capi.RunGroups(w.ctx, config, groups, interval, logr.Discard())
		})
	}
	return nil
}

// makeCluster creates the objects of a Cluster, unless they exist, and writes the status that a control plane
// provider would write.
func makeCluster(ctx context.Context, w *World, c client.Client, over *region.ClusterAPI) error {
	labels := map[string]string{"cluster.x-k8s.io/cluster-name": capiCluster.Name}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: capiCluster.Namespace, Name: name, Labels: labels}
	}
	// The kubeadm provider wants the key beside the certificate, as where Cluster API has made the authority; it only looks at the latter.
	key, err := os.ReadFile(w.directory.Path("pki", "ca.key"))
	if err != nil {
		return err
	}
	const secret = "cluster.x-k8s.io/secret"
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: capiCluster.Namespace}},
		&corev1.Secret{Type: secret, ObjectMeta: meta(capiCluster.Name + "-kubeconfig"), Data: map[string][]byte{"value": w.servers.Kubeconfig}},
		&corev1.Secret{Type: secret, ObjectMeta: meta(capiCluster.Name + "-ca"), Data: map[string][]byte{"tls.crt": w.servers.CA, "tls.key": key}},
	} {
		if err := c.Create(ctx, o); client.IgnoreAlreadyExists(err) != nil {
			return err
		}
	}
	classy := w.options.ClusterClass || slices.ContainsFunc(w.pools(), func(p pool.Spec) bool { return p.Kind == pool.ClusterClass })
	plane, err := over.MakeCluster(ctx, w.plane.Port(), classy)
	if err != nil {
		return err
	}
	said := fmt.Appendf(nil, `{"status":{"version":%q,"externalManagedControlPlane":true,"initialization":{"controlPlaneInitialized":true}}}`,
		disk.DefaultKubelet)
	return c.Status().Patch(ctx, plane, client.RawPatch(types.MergePatchType, said))
}
