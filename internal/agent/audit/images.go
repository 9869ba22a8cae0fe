package audit

import (
	"errors"

	"github.com/kamino-dev/kamino/internal/agent/store"
)

// Image is a damaged image.
type Image = store.DamagedImage

// ImageDamage is the damage in all stores of a disk.
type ImageDamage struct {
	// Damaged are the images that Remove removes.
	Damaged []Image
	// Whys are damages that no removal of an image ends.
	Whys []string

	stores []*store.Damage
}

// Images checks the images in the stores, which nothing may use.
func Images(stores []store.Store) (*ImageDamage, error) {
	all := &ImageDamage{}
	for _, s := range stores {
		d, err := s.Damage()
		if err != nil {
			return nil, err
		}
		all.Damaged, all.Whys, all.stores = append(all.Damaged, d.Images...), append(all.Whys, d.Fatal...), append(all.stores, d)
	}
	return all, nil
}

// Remove removes the damaged images from the disk. A machine with the disk pulls them again.
func (d *ImageDamage) Remove() error {
	var errs []error
	for _, s := range d.stores {
		errs = append(errs, s.Remove())
	}
	return errors.Join(errs...)
}
