package agent

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/generalize/disk"
	"github.com/kamino-dev/kamino/internal/agent/generalize/host"
	"github.com/kamino-dev/kamino/internal/agent/quiesce"
	"github.com/kamino-dev/kamino/internal/cli/exit"
)

const (
	// wordInterval is the time between two looks for the engine's word. The disk stands still during the last wait.
	wordInterval = 50 * time.Millisecond
	// calmInterval is the time between two looks while nothing stands still.
	calmInterval = time.Second
	// wordLimit is how long a quiet node waits for the engine. Afterwards the order ends, and the engine makes another.
	wordLimit = 10 * time.Minute
)

// momentOrder are the flags of quiesce that only a capture sets.
type momentOrder struct {
	prototype, uid, bootID string
	order                  disk.Order
}

func (m *momentOrder) bind(flags *pflag.FlagSet) {
	flags.StringVar(&m.prototype, "prototype", "", "with --order: name of the Prototype")
	flags.StringVar(&m.uid, "uid", "", "with --order: UID of the Prototype")
	flags.StringVar(&m.bootID, "boot-id", "", "with --order: boot ID that the host must have")
	flags.StringVar(&m.order.Name, "order", "", "the NodeOrder as NAMESPACE/NAME")
	flags.StringVar(&m.order.UID, "order-uid", "", "with --order: UID of the NodeOrder")
	flags.StringVar(&m.order.Files.Key, "key-file", "", "with --order: file with the key that signs the report")
	flags.StringVar(&m.order.Files.PodUID, "pod-uid-file", "", "with --order: file with the UID of the pod")
	flags.StringVar(&m.order.Access.TokenFile, "token-file", "", "with --order: file with the token for the API server")
	flags.StringVar(&m.order.Access.CAFile, "ca-file", "", "with --order: file with the certificates of the API server")
	hide(flags, "prototype", "uid", "boot-id", "order", "order-uid", "key-file", "pod-uid-file", "token-file", "ca-file")
}

func (m *momentOrder) isOn() bool { return m.order.Name != "" }

// carryOut makes the node of a capture's NodeOrder quiet, and reports each state of the moment on the order.
func (m *momentOrder) carryOut(ctx context.Context, e Environment, d quiesce.Donor) error {
	if d.Root == "" || m.prototype == "" || m.uid == "" || m.bootID == "" {
		return exit.Usagef("--order needs --root, --prototype, --uid and --boot-id; captures set these flags")
	}
	m.order.Access.Host, m.order.Access.Port = e.Getenv("KUBERNETES_SERVICE_HOST"), e.Getenv("KUBERNETES_SERVICE_PORT")
	api, err := host.NewAPI(m.order.Access)
	if err != nil {
		return err
	}
	order, err := host.NewOrder(m.order.Name, types.UID(m.order.UID), m.order.Files)
	if err != nil {
		return err
	}
	found, err := api.Get(ctx, order, d.Sleep)
	if err != nil {
		return err
	}
	holder := v1alpha1.Holder{Name: m.prototype, UID: types.UID(m.uid)}
	if err := order.CheckUnder(found, holder, v1alpha1.OrderQuiesce, m.bootID); err != nil {
		return err
	}
	d.Name, d.Nonce, d.Freeze = string(order.UID), found.Spec.Moment.Nonce, quiesce.Mode(found.Spec.Moment.Freeze)
	return (&moment{api: api, order: order, donor: d, bootID: m.bootID}).run(ctx)
}

// moment carries out an order with method Quiesce.
type moment struct {
	api    *host.API
	order  host.Order
	donor  quiesce.Donor
	bootID string
}

func (m *moment) run(ctx context.Context) error {
	answers := make(chan bool, 1)
	over, end := context.WithCancel(ctx)
	defer end()
	d := m.donor
	d.Begin = func(ctx context.Context) error {
		if err := m.report(ctx, v1alpha1.Moment{State: v1alpha1.MomentQuiet}); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, wordLimit)
		defer cancel()
		_, err := m.await(ctx, calmInterval/4, v1alpha1.WordProceed)
		return err
	}
	var unreported error
	result, err := d.Run(ctx, answers, func(s quiesce.State) {
		if s.Waiting != "" {
			return
		}
		// Without the report no one answers, and the moment ends after a second.
		if unreported = m.report(over, v1alpha1.Moment{State: v1alpha1.MomentNow, Frozen: s.Frozen, Message: s.NotFrozen}); unreported != nil {
			return
		}
		go func() {
			if word, err := m.await(over, wordInterval, v1alpha1.WordAccepted, v1alpha1.WordRefused); err == nil {
				answers <- word == v1alpha1.WordAccepted
			}
		}()
	})
	if err == nil && result.BootID != m.bootID {
		err = errors.New("the host has restarted since the order")
	}
	last := v1alpha1.Moment{
		State: v1alpha1.MomentOver, Frozen: result.Frozen, FrozenFor: metav1.Duration{Duration: result.FrozenFor}, InTime: result.InTime,
		Message: result.Late, MachineID: result.MachineID, RootUUID: result.RootUUID,
	}
	if err != nil {
		last = v1alpha1.Moment{State: v1alpha1.MomentFailed, Message: err.Error()}
		if busy := (*quiesce.BusyError)(nil); errors.As(err, &busy) {
			last.State = v1alpha1.MomentBusy
		}
	}
	// The report also has to arrive after a signal.
	return errors.Join(err, unreported, m.report(context.WithoutCancel(ctx), last))
}

func (m *moment) report(ctx context.Context, said v1alpha1.Moment) error {
	return m.api.Report(ctx, m.order, &v1alpha1.Report{Moment: &said}, m.donor.Sleep)
}

// await reads the order until the engine says one of the words. The deletion of the order ends the wait.
func (m *moment) await(ctx context.Context, interval time.Duration, words ...v1alpha1.Word) (v1alpha1.Word, error) {
	for {
		found, err := m.api.Get(ctx, m.order, m.donor.Sleep)
		if err != nil {
			return "", err
		}
		if found.UID != m.order.UID || found.DeletionTimestamp != nil {
			return "", errors.New("the order was deleted")
		}
		for _, word := range words {
			if v1alpha1.Word(found.Annotations[v1alpha1.MomentAnnotation]) == word {
				return word, nil
			}
		}
		if err := m.donor.Sleep(ctx, interval); err != nil {
			return "", err
		}
	}
}
