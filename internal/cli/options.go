package cli

import (
	"cmp"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/events"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/build"
	"github.com/kamino-dev/kamino/internal/cli/clouds"
	"github.com/kamino-dev/kamino/internal/cli/fleet"
	"github.com/kamino-dev/kamino/internal/cli/logging"
	"github.com/kamino-dev/kamino/internal/cli/user"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/node/kured"
	"github.com/kamino-dev/kamino/internal/runner"
)

// Environment variables with defaults of flags.
const (
	envImage      = "KAMINO_IMAGE"
	envGeneralize = "KAMINO_GENERALIZE_NAMESPACE"
	envAllowed    = "KAMINO_ALLOWED_IMAGES"
)

// Options are the flags of all verbs.
type Options struct {
	// Kubeconfig and Context select the cluster, as in kubectl.
	Kubeconfig, Context string
	// Fleet has all clusters that the flags name, for status.
	Fleet fleet.Flags
	// As is the impersonated user in the cluster.
	As user.Impersonation
	// Namespace of the Lease and of saved recipes.
	Namespace string
	// GeneralizeNamespace of the generalize pods, which are privileged.
	GeneralizeNamespace string
	// Clouds select the cloud and the builder of the nodes.
	Clouds clouds.Options
	// Image of the generalize pod for a Prototype without an image.
	Image string

	// AllowedImages of the generalize pod are images that a Prototype may name besides Image.
	AllowedImages []string

	// CustomData is the content of --custom-data, which the preflight of a trial needs; nil without the flag.
	CustomData []byte

	// Kured is the DaemonSet with the lock that captures wait for, as NAMESPACE/NAME; empty for none.
	Kured string

	// MaxConcurrent limits the captures that hold a node when a command begins a capture; zero means 1.
	MaxConcurrent int

	LogLevel, LogFormat string
	// The command sets Log and LogOutput before a verb runs.
	Log       logr.Logger
	LogOutput *logging.Output

	// atEnd holds functions to call at the end of the verb.
	atEnd []func()
	say   func(text string) // of the Factory, for the connection that only chooses the cloud
	// events is the result of recorder.
	events events.EventRecorder
}

func (o *Options) end() {
	for _, do := range o.atEnd {
		do()
	}
}

func (o *Options) bind(flags *pflag.FlagSet, getenv func(string) string) {
	o.Fleet.Bind(flags, &o.Kubeconfig, &o.Context)
	o.As.Bind(flags)
	flags.StringVar(&o.Namespace, "namespace", v1alpha1.DefaultNamespace, "namespace of Kamino's Lease and saved recipes")
	flags.StringVar(&o.GeneralizeNamespace, "generalize-namespace", cmp.Or(getenv(envGeneralize), v1alpha1.DefaultGeneralizeNamespace),
		"`namespace` of the privileged pods that generalize disks (default: "+envGeneralize+", or "+v1alpha1.DefaultGeneralizeNamespace+")")
	o.Clouds.Bind(flags, getenv)
	flags.StringSliceVar(&o.AllowedImages, "allowed-images", strings.FieldsFunc(getenv(envAllowed), func(r rune) bool { return r == ',' }),
		"additional `images` that a Prototype may use for the pod on the donor. An entry is an image, a repository, "+
			"or a prefix that ends with / (default: "+envAllowed+")")
	flags.StringVar(&o.Kured, "kured", kured.Default,
		"`DaemonSet` of kured as NAMESPACE/NAME. While kured holds its lock, Kamino drains no node. Empty: ignore kured")
	flags.Lookup("generalize-namespace").DefValue = "" // the text names the variable
	flags.Lookup("allowed-images").DefValue = "[]"
	flags.StringVar(&o.LogLevel, "log-level", "", "debug, info, warn or error (default: warn; controller: info)")
	flags.StringVar(&o.LogFormat, "log-format", "text", "text or json")
}

// recorder returns the command's only recorder, and flushes the events at the end of the command. Nil if the recorder
// cannot be built.
func (o *Options) recorder(c *cluster.Connection) events.EventRecorder {
	if o.events != nil {
		return o.events
	}
	j, err := runner.NewJournal(c.Kube, c.Client.Scheme(), o.Log.WithName("events"))
	if err != nil {
		o.Log.V(1).Info("events are disabled", "error", err.Error())
		return nil
	}
	o.atEnd = append(o.atEnd, j.Close)
	o.events = j
	return j
}

// defaultImage is the default image of the generalize pod.
func defaultImage(getenv func(string) string) string {
	if image := getenv(envImage); image != "" {
		return image
	}
	return build.Read().Image
}
