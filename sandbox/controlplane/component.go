package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	apiserveroptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	controllermanageroptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	scheduleroptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"github.com/kamino-dev/kamino/sandbox/authority"
)

// The components' cobra commands are not used: each command installs a signal handler, and the second handler panics.
// Each component starts with the steps of its command: options, flags, Run.

// The components' default of 20 requests a second is for clusters where days pass as days.
const (
	clientQPS   = "--kube-api-qps=1000"
	clientBurst = "--kube-api-burst=2000"
)

func (c *ControlPlane) startAPIServer(o Options, listener net.Listener, etcd string) error {
	serving, err := c.authority.Issue("apiserver", authority.Subject{
		Name: "kube-apiserver",
		Hosts: []string{o.address(), "localhost", "10.0.0.1",
			"kubernetes", "kubernetes.default", "kubernetes.default.svc"},
	})
	if err != nil {
		return err
	}
	signing, err := c.authority.SigningKey("service-account")
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return err
	}
	join, err := c.joinFlags(o)
	if err != nil {
		return err
	}
	audit, err := auditFlags(o.Audit)
	if err != nil {
		return err
	}
	evictAfter := int(o.EvictAfter / time.Second)
	options := apiserveroptions.NewServerRunOptions()
	if err := parse(options.Flags(), append(slices.Concat(join, audit),
		"--etcd-servers="+etcd,
		"--bind-address="+o.address(), "--advertise-address="+o.address(), "--secure-port="+port,
		"--tls-cert-file="+serving.CertFile, "--tls-private-key-file="+serving.KeyFile,
		"--client-ca-file="+c.authority.CertFile(),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+signing, "--service-account-signing-key-file="+signing,
		"--authorization-mode=Node,RBAC",
		"--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none",
		"--allow-privileged=true", "--profiling=false",
		fmt.Sprintf("--default-not-ready-toleration-seconds=%d", evictAfter),
		fmt.Sprintf("--default-unreachable-toleration-seconds=%d", evictAfter),
	)...); err != nil {
		return err
	}
	options.SecureServing.Listener = listener
	if err := options.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	completed, err := options.Complete(context.Background())
	if err != nil {
		return err
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return utilerrors.NewAggregate(errs)
	}
	c.run("kube-apiserver", func(ctx context.Context) error { return apiserver.Run(ctx, completed) })
	return nil
}

// joinFlags are the API server's flags for joining nodes.
func (c *ControlPlane) joinFlags(o Options) ([]string, error) {
	if !o.Join {
		return []string{"--anonymous-auth=false"}, nil
	}
	flags := []string{"--enable-bootstrap-token-auth=true", "--enable-admission-plugins=NodeRestriction"}
	if o.Webhook != "" {
		flags = append(flags, "--authentication-token-webhook-config-file="+o.Webhook, "--authentication-token-webhook-version=v1")
	}
	if o.JoinAddress == "" {
		return flags, nil
	}
	client, err := c.authority.Issue("apiserver-kubelet-client", authority.Subject{Name: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}})
	if err != nil {
		return nil, err
	}
	return append(flags,
		"--kubelet-client-certificate="+client.CertFile, "--kubelet-client-key="+client.KeyFile,
		// The names of these nodes do not resolve.
		"--kubelet-preferred-address-types=InternalIP",
	), nil
}

func (c *ControlPlane) startControllerManager(o Options) error {
	kubeconfig, err := c.componentKubeconfig("system:kube-controller-manager", o)
	if err != nil {
		return err
	}
	signing, err := c.authority.SigningKey("service-account")
	if err != nil {
		return err
	}
	options, err := controllermanageroptions.NewKubeControllerManagerOptions()
	if err != nil {
		return err
	}
	known, off, aliases := controllermanager.KnownControllers(), controllermanager.ControllersDisabledByDefault(), controllermanager.ControllerAliases()
	flags := options.Flags(known, off, aliases)
	options.ParsedFlags = &flags
	if err := parse(flags,
		"--kubeconfig="+kubeconfig,
		"--leader-elect=false", "--secure-port=0",
		clientQPS, clientBurst,
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+signing,
		"--root-ca-file="+c.authority.CertFile(),
		"--cluster-signing-cert-file="+c.authority.CertFile(), "--cluster-signing-key-file="+c.authority.KeyFile(),
		"--controllers="+o.controllers(),
		"--node-monitor-period=1s", "--node-monitor-grace-period="+o.NodeGrace.String(),
	); err != nil {
		return err
	}
	if err := options.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	config, err := options.Config(context.Background(), known, off, aliases)
	if err != nil {
		return err
	}
	c.run("kube-controller-manager", func(ctx context.Context) error {
		return controllermanager.Run(ctx, config.Complete())
	})
	return nil
}

// controllers to run: machines have no pod network, so nodes need no ranges. Bootstrap tokens need two controllers
// that are off by default.
func (o Options) controllers() string {
	const always = "*,-node-ipam-controller"
	if !o.Join {
		return always
	}
	return always + ",bootstrap-signer-controller,token-cleaner-controller"
}

func (c *ControlPlane) startScheduler(o Options) error {
	kubeconfig, err := c.componentKubeconfig("system:kube-scheduler", o)
	if err != nil {
		return err
	}
	options := scheduleroptions.NewOptions()
	if err := parse(*options.Flags,
		"--kubeconfig="+kubeconfig,
		"--leader-elect=false", "--secure-port=0",
		clientQPS, clientBurst,
	); err != nil {
		return err
	}
	if err := options.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	c.run("kube-scheduler", func(ctx context.Context) error {
		config, sched, err := scheduler.Setup(ctx, options)
		if err != nil {
			return err
		}
		return scheduler.Run(ctx, config, sched)
	})
	return nil
}

// componentKubeconfig writes the kubeconfig of a component.
func (c *ControlPlane) componentKubeconfig(user string, o Options) (string, error) {
	content, err := c.Kubeconfig(user)
	if err != nil {
		return "", err
	}
	path := filepath.Join(o.Dir, fileName(user)+".kubeconfig")
	return path, os.WriteFile(path, content, 0o600)
}

// fileName is a file name for a user with colons or slashes in the name.
func fileName(user string) string { return strings.NewReplacer(":", "-", "/", "-").Replace(user) }

func parse(named cliflag.NamedFlagSets, args ...string) error {
	all := pflag.NewFlagSet("component", pflag.ContinueOnError)
	for _, set := range named.FlagSets {
		all.AddFlagSet(set)
	}
	if err := all.Parse(args); err != nil {
		return fmt.Errorf("this version of Kubernetes refuses a flag: %w", err)
	}
	if rest := all.Args(); len(rest) > 0 {
		return errors.New("not a flag: " + rest[0])
	}
	return nil
}
