package clouds

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/wording"
)

const (
	// Quietly is how long a verb waits without a word. The client of a cloud tries a refused request again for minutes.
	Quietly = 3 * time.Second
	// lookTime is the default of --timeout for verbs that only read.
	lookTime = 5 * time.Minute
)

// SayWait returns the provider, and says once that a call waits, for what and since when.
func SayWait(provider cloud.Provider, now func() time.Time, say func(text string)) cloud.Provider {
	var once sync.Once
	return cloud.Intercept(provider, func(ctx context.Context, op cloud.Op, call func(context.Context) error) error {
		since, of := now().UTC().Format("15:04:05 MST"), ""
		if op.Resource != "" {
			of = " of " + op.Resource
		}
		timer := time.AfterFunc(Quietly, func() {
			once.Do(func() {
				say(fmt.Sprintf("Kamino has waited for the cloud since %s (call %s%s). It keeps trying.", since, op.Name, of))
			})
		})
		defer timer.Stop()
		return call(ctx)
	})
}

// Patient returns the provider for a verb that only reads. After Quietly of waiting, it says why.
func (o *Options) Patient(provider cloud.Provider, say func(text string)) cloud.Provider {
	var waited time.Duration
	return cloud.Patient(provider, func(wait time.Duration) {
		if before := waited; before <= Quietly && before+wait > Quietly {
			say(fmt.Sprintf("The cloud throttles the credential. Kamino waits as the cloud asks, for up to %s.", wording.Duration(cmp.Or(o.Patience, lookTime))))
		}
		waited += wait
	})
}

// BindTimeout adds the flag --timeout to a verb that only reads.
func (o *Options) BindTimeout(flags *pflag.FlagSet) {
	flags.DurationVar(&o.Patience, "timeout", lookTime, "how long to wait for a cloud or an API server that throttles")
}
