package cloud

// Decorator is a provider in front of another, whose calls it counts, loses, or answers from what it knows.
type Decorator interface {
	Provider

	// Decorated is the provider behind.
	Decorated() Provider
}

// As finds a power, one of the optional interfaces of this package, of a provider that may be decorated. A decorator's
// own form of the power counts where the provider behind has the power at all; a decorator that has none lets the
// power of the one behind through. Of a joined provider the powers of both halves are found.
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
