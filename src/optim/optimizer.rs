//! An optimiser: a rule, and what it keeps of a model.

use super::gradients::{clipped, finite, norm_factor};
use super::rule::{Memory, Rule, Step};
use super::{LossScale, Schedule};
use crate::{DType, Device, Error, Result, Tensor, TensorStruct, no_grad};
use std::collections::BTreeMap;

/// What is kept for one parameter.
#[derive(Clone, Debug, TensorStruct)]
pub struct Slot {
    /// The rule's tensors.
    #[tensor_struct(flatten)]
    pub memory: Memory,
    /// The parameter in F32, where the model has it in half precision and the optimiser was asked for
    /// [`masters`](Optimizer::masters).
    pub master: Option<Tensor>,
    /// The group that the parameter belongs to.
    pub group: usize,
}

/// Parameters that share numbers.
#[derive(Clone, Copy, Debug, TensorStruct)]
pub struct Group {
    /// A factor of the learning rate.
    pub rate: f64,
    /// The weight decay; the first group's where none is given.
    pub weight_decay: Option<f64>,
}

/// An optimiser by a rule: [`Sgd`](super::Sgd), [`AdamW`](super::AdamW), ..
///
/// It updates the floating-point tensors of a model that it has a [`Slot`] for: all that the rule takes at first, fewer
/// behind [`freeze`](Optimizer::freeze) and [`only`](Optimizer::only).
#[derive(Clone, Debug, TensorStruct)]
pub struct Optimizer<R: Rule> {
    /// The rule's numbers.
    pub rule: R,
    /// The learning rate before the schedule: 0-d, F64.
    pub lr: Tensor,
    /// Steps taken: 0-d, I64.
    pub steps: Tensor,
    /// What the learning rate is multiplied by at each step.
    pub schedule: Schedule,
    /// Parameters that share numbers; the first group is of all that no other names.
    pub groups: Vec<Group>,
    /// The greatest norm of all gradients as one vector.
    pub max_norm: Option<f64>,
    /// The greatest magnitude of a gradient's element.
    pub max_value: Option<f64>,
    /// The factor of the loss that keeps gradients within half precision.
    pub scale: Option<LossScale>,
    /// What is kept for each parameter, by its name.
    pub state: BTreeMap<String, Slot>,
}

impl<R: Rule> Optimizer<R> {
    /// An optimiser of a model's parameters by a rule.
    #[track_caller]
    pub fn with<M: TensorStruct>(model: &M, lr: f64, rule: R) -> Optimizer<R> {
        let (mut state, mut device) = (BTreeMap::new(), None);
        for (name, parameter) in model.parameters() {
            if rule.takes(&parameter) {
                device.get_or_insert_with(|| parameter.device());
                let slot = Slot {
                    memory: no_grad(|| rule.begin(&parameter)),
                    master: None,
                    group: 0,
                };
                state.insert(name, slot);
            }
        }
        let device = device.unwrap_or_else(Device::cpu);
        let steps = Tensor::zeros((), DType::I64, &device);
        steps.carry();
        state.values().for_each(Slot::carry);
        Optimizer {
            lr: Tensor::full((), lr, DType::F64, &device),
            steps,
            schedule: Schedule::constant(),
            groups: vec![Group {
                rate: 1.0,
                weight_decay: Some(0.0),
            }],
            max_norm: None,
            max_value: None,
            scale: None,
            state,
            rule,
        }
    }

    /// The learning rate multiplied by a schedule.
    pub fn schedule(mut self, schedule: Schedule) -> Optimizer<R> {
        self.schedule = schedule;
        self
    }

    /// How fast weights shrink, where a group says nothing else.
    pub fn weight_decay(mut self, decay: f64) -> Optimizer<R> {
        if let Some(first) = self.groups.first_mut() {
            first.weight_decay = Some(decay);
        }
        self
    }

    /// Parameters whose names `is_in` picks, with a factor of the learning rate and a weight decay of their own.
    pub fn group(
        mut self,
        is_in: impl Fn(&str) -> bool,
        rate: f64,
        weight_decay: Option<f64>,
    ) -> Optimizer<R> {
        let number = self.groups.len();
        self.groups.push(Group { rate, weight_decay });
        for (name, slot) in &mut self.state {
            if is_in(name) {
                slot.group = number;
            }
        }
        self
    }

    /// Parameters that do not shrink, such as biases and scales.
    pub fn no_decay(self, is_in: impl Fn(&str) -> bool) -> Optimizer<R> {
        self.group(is_in, 1.0, Some(0.0))
    }

    /// Parameters whose names `is_frozen` picks stay as they are, and nothing is kept for them.
    pub fn freeze(mut self, is_frozen: impl Fn(&str) -> bool) -> Optimizer<R> {
        self.state.retain(|name, _| !is_frozen(name));
        self
    }

    /// Parameters under a path of the model, `encoder` or `layers.0`, stay as they are.
    pub fn freeze_under(self, path: &str) -> Optimizer<R> {
        self.freeze(|name| {
            let rest = name.strip_prefix(path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }

    /// Parameters whose names `is_learnt` does not pick stay as they are.
    pub fn only(self, is_learnt: impl Fn(&str) -> bool) -> Optimizer<R> {
        self.freeze(|name| !is_learnt(name))
    }

    /// Gradients scaled down to a norm, taken over all of them, before each step: see [`clip_norm`](super::clip_norm).
    pub fn clip_norm(mut self, most: f64) -> Optimizer<R> {
        self.max_norm = Some(most);
        self
    }

    /// Gradients' elements limited to ±`most` before each step.
    pub fn clip_value(mut self, most: f64) -> Optimizer<R> {
        self.max_value = Some(most);
        self
    }

    /// Parameters of half precision are learnt in F32, and the model gets them rounded
    /// ([Micikevicius et al. 2018](https://arxiv.org/abs/1710.03740)). Called before the first step.
    #[track_caller]
    pub fn masters<M: TensorStruct>(mut self, model: &M) -> Optimizer<R> {
        let rule = &self.rule;
        let state = &mut self.state;
        model.for_each(|name, parameter| {
            if let Some(slot) = state.get_mut(name)
                && matches!(parameter.dtype(), DType::F16 | DType::BF16)
            {
                let master = parameter.detach().to_dtype(DType::F32);
                slot.memory = rule.begin(&master);
                slot.master = Some(master);
                slot.carry();
            }
        });
        // The first loss does not read them, so that its flush would leave them to another one than all later steps' do.
        Tensor::carry_computed(state.values().filter_map(|slot| slot.master.as_ref()));
        self
    }

    /// The loss is multiplied by [`scaled`](Optimizer::scaled), and a step whose gradients overflowed changes nothing but
    /// the scale.
    #[track_caller]
    pub fn loss_scale(mut self, scale: LossScale) -> Optimizer<R> {
        self.scale = Some(LossScale {
            scale: scale.scale.to_device(&self.lr.device()),
            good: scale.good.to_device(&self.lr.device()),
            ..scale
        });
        self
    }

    /// The loss as it is differentiated: times the loss scale, if there is one.
    #[track_caller]
    pub fn scaled(&self, loss: &Tensor) -> Tensor {
        match &self.scale {
            Some(scale) => loss * &scale.scale,
            None => loss.clone(),
        }
    }

    /// Another learning rate, behind which a recorded training step still holds.
    #[track_caller]
    pub fn set_lr(&mut self, lr: f64) {
        self.lr = Tensor::full((), lr, DType::F64, &self.lr.device());
    }

    /// The learning rate of the next step: 0-d, F64.
    #[track_caller]
    pub fn next_lr(&self) -> Tensor {
        &self.lr * self.schedule.factor(&self.steps)
    }

    /// Memory as a rule with other options has it at first.
    #[track_caller]
    pub(super) fn begin_again(&mut self) {
        for slot in self.state.values_mut() {
            let like = slot.master.as_ref().or(slot.memory.values().next());
            if let Some(like) = like.cloned() {
                slot.memory = self.rule.begin(&like);
                slot.carry();
            }
        }
    }

    /// Updates a model's parameters by their gradients, which come in the model's structure. Gradients are of any
    /// floating-point dtype; a parameter keeps its own, and still requires a gradient if it did.
    ///
    /// Where the gradients have another structure, or a parameter and its gradient differ in shape, the parameters carry
    /// that error.
    #[track_caller]
    pub fn step<M: TensorStruct>(&mut self, model: &mut M, gradients: &M) {
        no_grad(|| self.take_step(model, gradients));
    }

    #[track_caller]
    fn take_step<M: TensorStruct>(&mut self, model: &mut M, gradients: &M) {
        // A struct that does not fit is an error of the pass over both below.
        let mut all = self.gradients(model, gradients).unwrap_or_default();
        let fine = self.scale.as_ref().map(|scale| {
            for gradient in all.values_mut() {
                *gradient = gradient.to_dtype(gradient.dtype().compute()) / &scale.scale;
            }
            finite(all.values())
        });
        if let Some(most) = self.max_value {
            all.values_mut().for_each(|g| *g = g.clamp(-most, most));
        }
        if let Some(most) = self.max_norm {
            let factor = norm_factor(all.values(), most);
            all.values_mut().for_each(|g| *g = clipped(g, &factor));
        }
        let (lr, before) = (self.next_lr(), self.steps.clone());
        let after = &before + 1;
        let number = after.to_dtype(DType::F64);
        let rates: Vec<Tensor> = self
            .groups
            .iter()
            .map(|group| scaled(&lr, group.rate))
            .collect();
        let (groups, rule, state) = (&self.groups, &self.rule, &mut self.state);
        let decay = groups.first().and_then(|group| group.weight_decay);
        let result = model.zip_mut(gradients, |name, parameter, _| {
            let (Some(slot), Some(gradient)) = (state.get_mut(name), all.remove(name)) else {
                return;
            };
            let (Some(group), Some(lr)) = (groups.get(slot.group), rates.get(slot.group)) else {
                return;
            };
            let step = Step {
                lr,
                number: &number,
                weight_decay: group.weight_decay.or(decay).unwrap_or(0.0),
            };
            slot.update(rule, &step, parameter, &gradient, fine.as_ref());
        });
        if let Err(error) = result {
            let failed = Tensor::failed("step", error, &[]);
            model.for_each_mut(|_, parameter| *parameter = failed.clone());
        }
        self.steps = match &fine {
            Some(fine) => fine.where_cond(&after, &before),
            None => after,
        };
        if let (Some(scale), Some(fine)) = (&mut self.scale, &fine) {
            scale.update(fine);
        }
        self.steps.carry();
        self.steps.end_step(|| {
            let mut parameters = Vec::new();
            model.for_each(|name, tensor| {
                if self.state.contains_key(name) {
                    parameters.push(tensor.clone());
                }
            });
            let numbers = self.scale.iter().flat_map(|s| [&s.scale, &s.good]);
            let kept = self.state.values().flat_map(Slot::tensors);
            (parameters, numbers.chain(kept).cloned().collect())
        });
    }

    /// The gradients of the parameters that are learnt, by name: one for each that the model does not tie, also where two
    /// gradients are one tensor.
    fn gradients<M: TensorStruct>(
        &self,
        model: &mut M,
        gradients: &M,
    ) -> Result<BTreeMap<String, Tensor>> {
        let mut all = BTreeMap::new();
        model.zip_mut(gradients, |name, _, gradient| {
            if self.state.contains_key(name) {
                all.insert(name.to_owned(), gradient.clone());
            }
        })?;
        Ok(all)
    }
}

/// The learning rate times a group's factor.
#[track_caller]
fn scaled(lr: &Tensor, rate: f64) -> Tensor {
    match rate {
        1.0 => lr.clone(),
        rate => lr * rate,
    }
}

impl Slot {
    /// One parameter's step, undone where `fine` is false.
    #[track_caller]
    fn update<R: Rule>(
        &mut self,
        rule: &R,
        step: &Step<'_>,
        parameter: &mut Tensor,
        gradient: &Tensor,
        fine: Option<&Tensor>,
    ) {
        let (dtype, required) = (parameter.dtype(), parameter.has_grad());
        let current = self.master.clone().unwrap_or_else(|| parameter.clone());
        if gradient.error().is_none() && gradient.dims() != current.dims() {
            let why = format!(
                "a gradient of shape {:?}, not {:?}",
                gradient.dims(),
                current.dims()
            );
            *parameter = Tensor::failed("step", Error::shape(why), &[&current, gradient]);
            return;
        }
        let gradient = gradient.to_dtype(current.dtype());
        let mut memory = self.memory.clone();
        let mut updated = rule.update(step, &current, &gradient, &mut memory);
        if let Some(fine) = fine {
            updated = fine.where_cond(&updated, &current);
            for (name, new) in &mut memory {
                if let Some(old) = self.memory.get(name) {
                    *new = fine.where_cond(&*new, old);
                }
            }
        }
        self.memory = memory;
        *parameter = updated.to_dtype(dtype);
        parameter.carry();
        if required {
            *parameter = parameter.requires_grad();
        }
        if self.master.is_some() {
            self.master = Some(updated);
        }
        self.carry();
    }

    /// What is kept.
    fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.memory.values().chain(&self.master)
    }

    /// Notes that a loop of steps carries what is kept.
    fn carry(&self) {
        self.tensors().for_each(Tensor::carry);
    }
}
