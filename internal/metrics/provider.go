package metrics

import (
	"context"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// resultOK is the value of label result for a successful call; other values are the kinds of errors.
const resultOK = "OK"

// Provider counts and times the calls to a provider. Methods without I/O (SameInstance, PoolName, BuiltFrom, ReadPool,
// MaxImages, CanRebuild) are not counted.
func (m *Metrics) Provider(next cloud.Provider) cloud.Provider {
	return cloud.Intercept(next, func(ctx context.Context, op cloud.Op, call func(context.Context) error) error {
		start := time.Now()
		err := call(ctx)
		m.callTimes.WithLabelValues(op.Name).Observe(time.Since(start).Seconds())
		result := resultOK
		if err != nil {
			result = string(cloud.KindOf(err))
		}
		m.calls.WithLabelValues(op.Name, result).Inc()
		return err
	})
}
