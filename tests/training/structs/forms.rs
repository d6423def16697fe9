//! Every form of struct that the derive takes.

use super::{Linear, names, v};
use ferrotrace::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::marker::PhantomData;

#[derive(TensorStruct)]
struct Unit;

#[derive(TensorStruct)]
struct Newtype(Tensor);

#[derive(TensorStruct)]
struct Pair(Tensor, Newtype);

#[derive(TensorStruct)]
struct Generic<A, B = Tensor>
where
    A: Clone,
{
    a: A,
    b: [B; 2],
}

#[derive(TensorStruct)]
struct Sized<const N: usize> {
    items: [Linear; N],
}

#[derive(Clone, Hash, PartialEq, Debug)]
enum Padding {
    Same,
    By(u8),
}

/// Neither hashed nor compared: it goes along.
#[derive(Clone, Debug, PartialEq)]
struct Note(f32);

#[derive(TensorStruct)]
struct Everything<T> {
    r#type: Tensor,
    number: f32,
    text: String,
    flag: bool,
    dtype: DType,
    device: Device,
    sizes: Shape,
    unit: Unit,
    boxed: Box<Linear>,
    several: (Tensor, usize, Option<Newtype>),
    sorted: BTreeMap<String, Tensor>,
    hashed: HashMap<String, Linear>,
    nested: Vec<Vec<Tensor>>,
    none: Option<Tensor>,
    #[tensor_struct(value)]
    padding: Padding,
    #[tensor_struct(skip)]
    note: Note,
    marker: PhantomData<T>,
    #[tensor_struct(name = "kernel")]
    renamed: Tensor,
    #[tensor_struct(flatten)]
    inner: Newtype,
}

#[derive(TensorStruct)]
enum Layer {
    Linear(Linear),
    Scale { by: Tensor, offset: Tensor },
    Two(Tensor, Tensor),
    Relu,
}

#[derive(TensorStruct)]
struct Tree {
    value: Tensor,
    children: Vec<Tree>,
    last: Option<Box<Tree>>,
}

#[derive(TensorStruct)]
enum Never {}

fn everything() -> Everything<u32> {
    let entry = |key: &str, n: f32| (key.to_owned(), Linear::of(&[n], None));
    Everything {
        r#type: v(&[1.0]),
        number: 0.5,
        text: "text".to_owned(),
        flag: true,
        dtype: DType::BF16,
        device: Device::cpu(),
        sizes: Shape::from([2, 3]),
        unit: Unit,
        boxed: Box::new(Linear::of(&[2.0], Some(&[3.0]))),
        several: (v(&[4.0]), 7, Some(Newtype(v(&[5.0])))),
        sorted: ["z", "a"].map(|key| (key.to_owned(), v(&[6.0]))).into(),
        hashed: [entry("q", 7.0), entry("p", 8.0), entry("r", 9.0)].into(),
        nested: vec![vec![], vec![v(&[10.0]), v(&[11.0])]],
        none: None,
        padding: Padding::By(3),
        note: Note(1.5),
        marker: PhantomData,
        renamed: v(&[12.0]),
        inner: Newtype(v(&[13.0])),
    }
}

#[test]
fn names_are_paths() {
    assert!(names(&Unit).is_empty());
    assert_eq!(names(&v(&[1.0])), [""]);
    assert_eq!(names(&Newtype(v(&[1.0]))), [""]);
    assert_eq!(names(&Pair(v(&[1.0]), Newtype(v(&[2.0])))), ["0", "1"]);
    let linear = || Linear::of(&[1.0], Some(&[2.0]));
    let generic = Generic {
        a: linear(),
        b: [v(&[1.0]), v(&[2.0])],
    };
    assert_eq!(names(&generic), ["a.weight", "a.bias", "b.0", "b.1"]);
    let plain: Generic<f64> = Generic {
        a: 1.0,
        b: [v(&[1.0]), v(&[2.0])],
    };
    assert_eq!(names(&plain), ["b.0", "b.1"]);
    let sized = Sized {
        items: [linear(), Linear::of(&[1.0], None)],
    };
    let expected = ["items.0.weight", "items.0.bias", "items.1.weight"];
    assert_eq!(names(&sized), expected);
    assert_eq!(
        names(&(linear(), vec![v(&[1.0])])),
        ["0.weight", "0.bias", "1.0"]
    );
}

#[test]
fn every_kind_of_field() {
    let expected = [
        "type",
        "boxed.weight",
        "boxed.bias",
        "several.0",
        "several.2",
        "sorted.a",
        "sorted.z",
        "hashed.p.weight",
        "hashed.q.weight",
        "hashed.r.weight",
        "nested.1.0",
        "nested.1.1",
        "kernel",
        "",
    ];
    let all = everything();
    assert_eq!(names(&all), expected);
    let mapped = all.map(|_, tensor| tensor + 1.0);
    assert!(all.same_structure(&mapped));
    assert_eq!(
        (mapped.number, &*mapped.text, mapped.flag),
        (0.5, "text", true)
    );
    assert_eq!(
        (mapped.dtype, mapped.sizes.dims()),
        (DType::BF16, &[2, 3][..])
    );
    assert_eq!(
        (&mapped.padding, &mapped.note),
        (&Padding::By(3), &Note(1.5))
    );
    assert_ne!(mapped.padding, Padding::Same);
    assert!(mapped.device.is_cpu() && mapped.several.1 == 7 && mapped.none.is_none());
    let values = |of: &Everything<u32>| -> Vec<f32> {
        let tensors = of.tensors();
        tensors.iter().map(|x| x.to_scalar().unwrap()).collect()
    };
    let before = [
        1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 6.0, 8.0, 7.0, 9.0, 10.0, 11.0, 12.0, 13.0,
    ];
    assert_eq!(values(&all), before);
    assert_eq!(values(&mapped), before.map(|x| x + 1.0));
    let Unit = mapped.unit;
}

#[test]
fn enums_are_part_of_the_structure() {
    let layers = || {
        vec![
            Layer::Linear(Linear::of(&[1.0], Some(&[2.0]))),
            Layer::Scale {
                by: v(&[3.0]),
                offset: v(&[4.0]),
            },
            Layer::Relu,
            Layer::Two(v(&[5.0]), v(&[6.0])),
        ]
    };
    let expected = ["0.weight", "0.bias", "1.by", "1.offset", "3.0", "3.1"];
    assert_eq!(names(&layers()), expected);
    let mut other = layers();
    assert!(layers().same_structure(&other));
    other[2] = Layer::Two(v(&[5.0]), v(&[6.0]));
    assert!(!layers().same_structure(&other));
    // The variant alone tells these apart, so a compiled function is traced for each.
    let f = jit(|layer: &Layer| match layer {
        Layer::Linear(Linear { weight, .. }) => weight + 1.0,
        Layer::Scale { by, offset } => by * offset,
        Layer::Two(a, b) => a - b,
        Layer::Relu => Tensor::zeros(1, DType::F32, &Device::cpu()),
    });
    with_mode(Mode::Compiled, || {
        let results = layers()
            .iter()
            .map(|layer| f.call(layer))
            .collect::<Vec<_>>();
        let results = results.iter().map(|x| x.to_scalar::<f32>().unwrap());
        assert_eq!(results.collect::<Vec<_>>(), [2.0, 12.0, 0.0, -1.0]);
    });
    let never: Option<Never> = None;
    assert!(names(&never).is_empty());
}

#[test]
fn structs_of_themselves() {
    let leaf = |n: f32| Tree {
        value: v(&[n]),
        children: Vec::new(),
        last: None,
    };
    let tree = Tree {
        value: v(&[1.0]),
        children: vec![leaf(2.0), leaf(3.0)],
        last: Some(Box::new(leaf(4.0))),
    };
    let expected = [
        "value",
        "children.0.value",
        "children.1.value",
        "last.value",
    ];
    assert_eq!(names(&tree), expected);
}
