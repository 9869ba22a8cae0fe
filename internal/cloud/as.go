package cloud

// Decorator is a provider that wraps another provider, for example to count calls or to cache answers.
type Decorator interface {
	Provider

	// Decorated returns the wrapped provider.
	Decorated() Provider
}

// As returns a power, an optional interface of this package, of a provider that may be decorated. A decorator's own
// implementation is used if the wrapped provider has the power; a decorator without the power passes the wrapped power
// through. For a joined provider As finds the powers of both halves.
func As[Power any](p Provider) (power Power, able bool) {
	if j, halves := p.(*joined); halves {
		return powerOf[Power](j)
	}
	d, decorates := p.(Decorator)
	if !decorates {
		power, able = p.(Power)
		return power, able
	}
	behind, able := As[Power](d.Decorated())
	if own, decorated := p.(Power); able && decorated {
		return own, true
	}
	return behind, able
}
