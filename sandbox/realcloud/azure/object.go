package azure

// object is a JSON object of Resource Manager.
type object = map[string]any

// at finds a value by path; nil if there is none.
func at(o object, path ...string) any {
	var v any = o
	for _, key := range path {
		m, is := v.(object)
		if !is {
			return nil
		}
		v = m[key]
	}
	return v
}

func text(o object, path ...string) string {
	s, _ := at(o, path...).(string)
	return s
}

func list(o object, path ...string) (all []object) {
	values, _ := at(o, path...).([]any)
	for _, v := range values {
		if m, is := v.(object); is {
			all = append(all, m)
		}
	}
	return all
}

// walk calls see for each value below an object, with its key.
func walk(key string, v any, see func(key string, v any)) {
	see(key, v)
	switch v := v.(type) {
	case object:
		for k, below := range v {
			walk(k, below, see)
		}
	case []any:
		for _, below := range v {
			walk(key, below, see)
		}
	}
}
