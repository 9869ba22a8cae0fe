package cli

import (
	"context"
	"sync"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// cloudSilence is how long a verb waits for the cloud without a word. The client of a cloud tries a refused request again for minutes.
const cloudSilence = 3 * time.Second

// saysWait returns the provider, and says once that a call waits, for what and since when.
func (f *Factory) saysWait(provider cloud.Provider) cloud.Provider {
	var once sync.Once
	return cloud.Intercept(provider, func(ctx context.Context, op cloud.Op, call func(context.Context) error) error {
		since, of := f.Now(), ""
		if op.Resource != "" {
			of = " of " + op.Resource
		}
		timer := time.AfterFunc(cloudSilence, func() {
			once.Do(func() {
				f.note("Kamino has waited for the cloud since %s (call %s%s). It keeps trying.", clockTime(since), op.Name, of)
			})
		})
		defer timer.Stop()
		return call(ctx)
	})
}
