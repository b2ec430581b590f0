package figures

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"math"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	width  = 9 * vg.Inch
	height = 5 * vg.Inch
	margin = 5 * vg.Millimeter
)

// palette are the colours of Okabe and Ito, which people who see colours
// differently can tell apart, without the one that is too pale on white.
var palette = []color.Color{
	color.NRGBA{R: 0x00, G: 0x72, B: 0xB2, A: 0xFF}, // blue
	color.NRGBA{R: 0xD5, G: 0x5E, B: 0x00, A: 0xFF}, // vermilion
	color.NRGBA{R: 0x00, G: 0x9E, B: 0x73, A: 0xFF}, // green
	color.NRGBA{R: 0xCC, G: 0x79, B: 0xA7, A: 0xFF}, // purple
	color.NRGBA{R: 0xE6, G: 0x9F, B: 0x00, A: 0xFF}, // orange
	color.NRGBA{R: 0x56, G: 0xB4, B: 0xE9, A: 0xFF}, // sky
	color.Black,
}

// shapes go with the colours, for who sees none.
var shapes = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.PyramidGlyph{}, draw.BoxGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{}, draw.RingGlyph{}, draw.SquareGlyph{},
}

// dashes are for lines of so many points that no shape could be seen on them.
var dashes = [][]vg.Length{
	nil, {vg.Points(8), vg.Points(3)}, {vg.Points(2), vg.Points(2)}, {vg.Points(8), vg.Points(3), vg.Points(2), vg.Points(3)}, {vg.Points(14), vg.Points(4)},
}

// manyPoints are too many to be drawn one by one on a line.
const manyPoints = 60

func (p Plot) file() string { return p.Name + ".svg" }

// WriteSVG draws the plot on white, with the legend beside the data. Points that
// cannot be drawn, as zero on a logarithmic axis, are counted in the legend.
func (p Plot) WriteSVG(w io.Writer) error {
	drawn, err := p.draw()
	if err != nil {
		return fmt.Errorf("drawing plot %s: %w", p.Name, err)
	}
	canvas := vgsvg.New(width, height)
	page := draw.New(canvas)
	page.FillPolygon(color.White, []vg.Point{
		page.Min, {X: page.Max.X, Y: page.Min.Y}, page.Max, {X: page.Min.X, Y: page.Max.Y},
	})
	page = draw.Crop(page, margin, -margin, margin, -margin)
	legend := drawn.Legend
	// A fifth more than its words take, for who has other letters.
	beside := legend.Rectangle(page).Size().X*6/5 + margin
	drawn.Legend = plot.NewLegend()
	drawn.Draw(draw.Crop(page, 0, -beside, 0, 0))
	legend.Draw(draw.Crop(page, page.Size().X-beside+margin, 0, 0, -3*margin))
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return fmt.Errorf("drawing plot %s: %w", p.Name, err)
	}
	// Letters of the same width, where there are none of this name.
	fonts := bytes.ReplaceAll(svg.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;"))
	if _, err := w.Write(fonts); err != nil {
		return fmt.Errorf("writing plot %s: %w", p.Name, err)
	}
	return nil
}

func (p Plot) draw() (*plot.Plot, error) {
	drawn := plot.New()
	drawn.Title.Text, drawn.X.Label.Text, drawn.Y.Label.Text = p.Title, p.XLabel, p.YLabel
	sans(&drawn.Title.TextStyle.Font, 14)
	sans(&drawn.Legend.TextStyle.Font, 11)
	drawn.Title.Padding, drawn.Legend.Padding = margin, margin/2
	drawn.Legend.Top, drawn.Legend.Left = true, true
	for _, axis := range []*plot.Axis{&drawn.X, &drawn.Y} {
		sans(&axis.Label.TextStyle.Font, 11)
		sans(&axis.Tick.Label.Font, 10)
	}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{Y: 0xDD}, color.Gray{Y: 0xDD}
	drawn.Add(grid)
	for i, s := range p.Series {
		if err := p.add(drawn, s, i); err != nil {
			return nil, fmt.Errorf("series %s: %w", s.Name, err)
		}
	}
	p.scale(drawn)
	return drawn, nil
}

// add draws one series that can be told from the others.
func (p Plot) add(drawn *plot.Plot, s Series, i int) error {
	points := p.drawable(s.Points)
	name := s.Name
	if lost := len(s.Points) - len(points); lost > 0 {
		name = fmt.Sprintf("%s (%d not shown)", name, lost)
	}
	line, dots, err := plotter.NewLinePoints(points)
	if len(points) == 0 {
		drawn.Legend.Add(name)
		return nil
	}
	if err != nil {
		return err
	}
	line.Color, line.Width = palette[i%len(palette)], vg.Points(1.5)
	// Where the colours begin again, the shapes are others.
	shape := shapes[(i+i/len(palette))%len(shapes)]
	dots.GlyphStyle = draw.GlyphStyle{Color: line.Color, Shape: shape, Radius: vg.Points(3)}
	switch {
	case !s.Line:
		drawn.Add(dots)
		drawn.Legend.Add(name, dots)
	case len(points) > manyPoints:
		line.Dashes = dashes[i%len(dashes)]
		drawn.Add(line)
		drawn.Legend.Add(name, line)
	default:
		drawn.Add(line, dots)
		drawn.Legend.Add(name, line, dots)
	}
	return nil
}

func (p Plot) drawable(points []Point) plotter.XYs {
	var xys plotter.XYs
	for _, point := range points {
		if finite(point.X) && finite(point.Y) && (!p.LogY || point.Y > 0) {
			xys = append(xys, plotter.XY{X: point.X, Y: point.Y})
		}
	}
	return xys
}

// scale lets the axis of values begin at zero, so that heights can be compared, or
// at a power of ten.
func (p Plot) scale(drawn *plot.Plot) {
	drawn.X.Tick.Marker, drawn.Y.Tick.Marker = ticks{plot.DefaultTicks{}}, ticks{plot.DefaultTicks{}}
	if math.IsInf(drawn.Y.Min, 0) {
		// There is nothing to draw, and an axis has to be somewhere.
		drawn.X.Min, drawn.X.Max, drawn.Y.Min, drawn.Y.Max = 0, 1, 0, 1
		return
	}
	if !p.LogY {
		drawn.Y.Min = min(0, drawn.Y.Min)
		return
	}
	drawn.Y.Min = math.Pow10(int(math.Floor(math.Log10(drawn.Y.Min))))
	drawn.Y.Max = math.Pow10(int(math.Floor(math.Log10(drawn.Y.Max))) + 1)
	drawn.Y.Scale, drawn.Y.Tick.Marker = plot.LogScale{}, ticks{plot.LogTicks{Prec: -1}}
}

// ticks are those of another ticker, written shortly: 8 M and not 8000000.
type ticks struct{ plot.Ticker }

// Ticks is plot.Ticker.
func (t ticks) Ticks(low, high float64) []plot.Tick {
	all := t.Ticker.Ticks(low, high)
	for i, tick := range all {
		switch {
		case tick.Label == "":
		case math.Abs(tick.Value) < 10_000:
			all[i].Label = digits(tick.Value)
		default:
			value, prefix := humanize.ComputeSI(tick.Value)
			all[i].Label = digits(value) + " " + prefix
		}
	}
	return all
}

func sans(f *font.Font, size vg.Length) {
	f.Typeface, f.Variant, f.Size = "Liberation", "Sans", size
}
